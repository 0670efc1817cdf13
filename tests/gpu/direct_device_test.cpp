// SPDX-License-Identifier: Apache-2.0
#include "gpu/direct_device.hpp"

#include <memory>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/cpu/cpu_device.hpp"
#include "tests/gpu/tiny_model.hpp"

namespace troupe {
namespace {

// The second token after a prompt of 40 made-up ones, that is longer than a page.
std::int32_t second_token(DirectDevice& direct) {
  Batch prompt, step;
  direct.add_slice(prompt, {.slot = 2, .num_tokens = 40, .sample = true, .first_page = 5});
  direct.add_slice(
      step, {.slot = 2, .context_length = 40, .input_from_slot = true, .sample = true, .first_page = 5});
  const Ticket first = direct.submit(std::make_shared<const Batch>(std::move(prompt)));
  const Ticket second = direct.submit(std::make_shared<const Batch>(std::move(step)));
  CHECK(direct.wait_for(first).tokens.size() == 1);
  return direct.wait_for(second).tokens.at(0);
}

}  // namespace

TEST_CASE("direct device: a caller that sleeps and one that polls get the same tokens") {
  ProgramCache programs = make_programs();
  std::vector<std::int32_t> tokens;
  for (const auto waiting : {DirectDevice::Waiting::kSleep, DirectDevice::Waiting::kPoll}) {
    CpuDevice device(tiny_model());
    DirectDevice direct(device, &programs, waiting);
    tokens.push_back(second_token(direct));
  }
  CHECK(tokens[0] >= 0);
  CHECK(tokens[0] == tokens[1]);
}

TEST_CASE("direct device: a made-up slice has the pages of its tokens and of those in front") {
  ProgramCache programs = make_programs();
  CpuDevice device(tiny_model());
  const DirectDevice direct(device, &programs);
  const std::uint32_t page_size = direct.description().page_size;
  Batch batch;
  direct.add_slice(batch, {.slot = 0, .num_tokens = page_size, .first_page = 3});
  direct.add_slice(batch, {.slot = 1, .num_tokens = 2, .context_length = page_size - 1, .first_page = 7});
  CHECK(batch.page_table == std::vector<PageId>{3, 7, 8});
  CHECK(batch.slices.at(1).first_page == 1);
  CHECK(batch.slices.at(1).num_pages == 2);
  CHECK(batch.num_tokens() == page_size + 2);
}

TEST_CASE("direct device: a batch that failed is told by an exception, and the next one runs") {
  ProgramCache programs = make_programs();
  CpuDevice device(tiny_model());
  DirectDevice direct(device, &programs);
  Batch bad = good_batch();
  bad.page_table.clear();
  CHECK_THROWS_WITH_AS(direct.run(std::move(bad)), doctest::Contains("a batch failed: "), std::runtime_error);
  CHECK(direct.run(good_batch()).tokens.size() == 1);
}

}  // namespace troupe
