// SPDX-License-Identifier: Apache-2.0
// A real trained Llama (stories260K) end to end on the CPU device.
#include "gpu/cpu/cpu_device.hpp"

#include <cstring>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "gpu/cpu/cpu_model.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/test_data.hpp"

namespace troupe {
namespace {

// llama2.c's tokenizer file: i32 longest token, then per token f32 score, i32
// length, bytes. Enough of it to turn ids into text.
class Vocabulary {
 public:
  explicit Vocabulary(const std::filesystem::path& path) {
    const std::string bytes = test::file_text(path);
    std::size_t position = 4;
    while (position + 8 <= bytes.size()) {
      std::int32_t length = 0;
      std::memcpy(&length, bytes.data() + position + 4, 4);
      pieces_.push_back(bytes.substr(position + 8, static_cast<std::size_t>(length)));
      position += 8 + static_cast<std::size_t>(length);
    }
  }

  std::string decode(const std::vector<std::int32_t>& tokens) const {
    std::string text;
    for (const auto token : tokens) {
      const std::string& piece = pieces_.at(static_cast<std::size_t>(token));
      if (piece.size() == 6 && piece.starts_with("<0x")) {
        text += static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16));
      } else {
        text += text.empty() && piece.starts_with(' ') ? piece.substr(1) : piece;
      }
    }
    return text;
  }

 private:
  std::vector<std::string> pieces_;
};

struct Stories {
  std::shared_ptr<const CpuModel> model;
  CpuDevice device;
  ProgramCache programs;

  explicit Stories(const std::filesystem::path& path)
      : model(load_cpu_model(plan_cpu_model(
            path / "hf",
            {.compute_type = DataType::kF32, .num_threads = 2, .num_slots = 40, .max_batch_tokens = 96}))),
        device(model),
        programs(model->network, model->compute_type, model->largest) {}
};

std::vector<DirectRequest> random_company(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<DirectRequest> requests(count);
  for (auto& request : requests) {
    request.prompt.resize(1 + random() % 100);
    for (auto& token : request.prompt) token = static_cast<std::int32_t>(3 + random() % 509);
    request.num_new = 1 + random() % 100;
    request.first_iteration = random() % 150;
    request.sampling = {.temperature = 1.0F, .seed = random()};
  }
  return requests;
}

}  // namespace

TEST_CASE("stories260K: 200 greedy tokens are the expected text, byte for byte") {
  const auto path = find_test_data("weights/stories260K");
  if (!path) return;
  Stories stories(*path);
  const auto tokens = generate(stories.device, stories.programs, {{.prompt = {1}, .num_new = 200}});
  CHECK(Vocabulary(*path / "tok512.bin").decode(tokens[0]) ==
        test::file_text(*path / "expected_greedy_200.txt"));
}

TEST_CASE("stories260K: chunks, company, pages and batches in flight change no token") {
  const auto path = find_test_data("weights/stories260K");
  if (!path) return;
  Stories stories(*path);
  const auto alone = generate(stories.device, stories.programs, {{.prompt = {1}, .num_new = 200}})[0];
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    // The first `known` tokens are given as a prompt, the rest must follow.
    const std::uint32_t known = 30 * seed;
    auto requests = random_company(seed % 2 == 0 ? 31 : 5, seed);
    DirectRequest request{.prompt = {1}, .num_new = 200 - known};
    request.prompt.insert(request.prompt.end(), alone.begin(), alone.begin() + known);
    requests.insert(requests.begin(), request);
    const auto tokens =
        generate(stories.device, stories.programs, requests,
                 {.seed = seed, .max_chunk = 50, .shuffle = true, .in_flight = 1 + seed % 3})[0];
    CHECK(std::equal(tokens.begin(), tokens.end(), alone.begin() + known, alone.end()));
  }
}

}  // namespace troupe
