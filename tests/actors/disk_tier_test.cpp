// SPDX-License-Identifier: Apache-2.0
// The disk tier as the actors use it: written behind, fetched ahead, never in
// anybody's way.
#include "actors/disk_tier.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include <caf/send.hpp>

#include "tests/actors/byte_tokenizer.hpp"
#include "tests/actors/world.hpp"

namespace troupe {
namespace {

using std::chrono::milliseconds;

const std::string kPrompt(41, 'x');

sim::SimSettings with_disk(std::shared_ptr<sim::SimFile> file = nullptr) {
  auto settings = sim::small_settings();
  settings.device.description.num_host_pages = 64;
  settings.options.serving.cache_policy = EvictionPolicy::kValue;
  if (!file) file = std::make_shared<sim::SimFile>();
  if (file->pages.empty()) file->pages.resize(64);
  settings.disk = {.file = std::move(file), .seed = 3, .longest = std::chrono::microseconds(500)};
  return settings;
}

std::size_t num_pages(const sim::SimFile& file) {
  std::size_t number = 0;
  for (const auto& page : file.pages) number += page ? 1 : 0;
  return number;
}

// What a process leaves behind that has answered one request.
std::shared_ptr<sim::SimFile> file_after_one_answer() {
  auto file = std::make_shared<sim::SimFile>();
  sim::SimWorld world(with_disk(file));
  submit(world, letters(kPrompt, 5));
  REQUIRE(world.run());
  return file;
}

TEST_CASE("disk tier: what a request leaves behind is written without anybody asking") {
  const auto file = file_after_one_answer();
  CHECK(num_pages(*file) == 11);  // 46 tokens but the last, 4 a page
}

TEST_CASE("disk tier: the next process has the conversation warm") {
  sim::SimWorld world(with_disk(file_after_one_answer()));
  const auto client = submit(world, letters(kPrompt, 5));
  REQUIRE(world.run());
  const auto finished = client->finished();
  CHECK(finished->usage.cached_tokens == 40);
  CHECK(finished->timings.sources.disk == 40);
  CHECK(finished->timings.sources.host == 0);
  CHECK(finished->timings.load > milliseconds(0));
  CHECK(world.metric("troupe_kv_pages_read_total") == 10);
  CHECK(leftovers(world) == "");
}

TEST_CASE("disk tier: one that waits for the disk lets others pass") {
  auto settings = with_disk(file_after_one_answer());
  settings.disk.longest = milliseconds(500);
  sim::SimWorld world(settings);
  const auto waits = submit(world, letters(kPrompt, 5));
  const auto passes = submit(world, letters("other", 5));
  REQUIRE(world.run([&] { return passes->has_ended(); }));
  CHECK(!waits->has_ended());
  REQUIRE(world.run());
  CHECK(waits->finished()->timings.sources.disk == 40);
  CHECK(passes->finished()->timings.load == milliseconds(0));
  CHECK(leftovers(world) == "");
}

TEST_CASE("disk tier: a disk that takes minutes is no trouble of the device or the engine") {
  auto settings = with_disk(file_after_one_answer());
  settings.disk.longest = std::chrono::minutes(10);
  settings.options.serving.max_queue_time = std::chrono::hours(1);
  sim::SimWorld world(settings);
  const auto client = submit(world, letters(kPrompt, 5));
  world.run_for(std::chrono::seconds(90));
  REQUIRE(!client->has_ended());
  CHECK(world.engine().status().num_fetching == 1);
  CHECK(world.engine().status().trouble == Trouble::kNone);
  REQUIRE(world.run());
  CHECK(client->finished());
  CHECK(world.engine().status().num_fetching == 0);
  CHECK(leftovers(world) == "");
}

TEST_CASE("disk tier: a client that leaves while the disk reads holds nothing") {
  auto settings = with_disk(file_after_one_answer());
  settings.disk.longest = milliseconds(100);
  sim::SimWorld world(settings);
  const auto client = submit(world, letters(kPrompt, 5));
  world.run_for(milliseconds(1));
  REQUIRE(!client->has_ended());
  world.engine().cancel(client->id());
  client->expect_cancel();
  REQUIRE(world.run());
  CHECK(client->has_ended());
  CHECK(leftovers(world) == "");
  const auto again = submit(world, letters(kPrompt, 5));
  REQUIRE(world.run());
  CHECK(again->finished()->timings.sources.host == 40);  // what was read is not lost
}

TEST_CASE("disk tier: a device that dies while the disk reads changes nothing") {
  auto settings = with_disk(file_after_one_answer());
  settings.disk.longest = milliseconds(50);
  sim::SimWorld world(settings);
  world.devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number == 2 ? sim::Fault::kBatchError : sim::Fault::kNone;
  };
  const auto waits = submit(world, letters(kPrompt, 5));
  const auto dies = submit(world, letters("other", 5));
  REQUIRE(world.run());
  CHECK(world.devices().num_devices == 2);
  CHECK(waits->finished());
  CHECK(dies->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("disk tier: pages that can't be read are computed again") {
  auto settings = with_disk(file_after_one_answer());
  settings.disk.percent_damaged = 100;
  sim::SimWorld world(settings);
  const auto client = submit(world, letters(kPrompt, 5));
  REQUIRE(world.run());
  CHECK(client->finished()->usage.cached_tokens == 0);
  CHECK(world.metric("troupe_kv_pages_not_intact_total") == 10);
  CHECK(leftovers(world) == "");
}

TEST_CASE("disk tier: a disk that takes nothing is left alone for a while, then tried again") {
  const auto file = std::make_shared<sim::SimFile>();
  auto settings = with_disk(file);
  settings.disk.percent_failed = 100;
  sim::SimWorld world(settings);
  submit(world, letters(kPrompt, 5));
  REQUIRE(world.run());
  CHECK(world.metric("troupe_kv_page_writes_failed_total") >= 1);
  CHECK(world.metric("troupe_kv_page_writes_failed_total") <= 10);  // each page at most once
  CHECK(num_pages(*file) == 0);
  const double before = world.metric("troupe_kv_page_writes_failed_total");
  submit(world, letters("y" + kPrompt, 5));
  REQUIRE(world.run());
  CHECK(world.metric("troupe_kv_page_writes_failed_total") == before);
  world.run_for(std::chrono::seconds(31));
  submit(world, letters("z" + kPrompt, 5));
  REQUIRE(world.run());
  CHECK(world.metric("troupe_kv_page_writes_failed_total") > before);
  CHECK(leftovers(world) == "");
}

TEST_CASE("disk tier: without pages on the host there is none") {
  const auto file = std::make_shared<sim::SimFile>();
  auto settings = with_disk(file);
  settings.device.description.num_host_pages = 0;
  sim::SimWorld world(settings);
  submit(world, letters(kPrompt, 5));
  REQUIRE(world.run());
  CHECK(num_pages(*file) == 0);
  CHECK(world.pages().counts().disk_total == 0);
}

TEST_CASE("disk tier: flushing ends when all is written, and not before") {
  const auto file = std::make_shared<sim::SimFile>();
  sim::SimWorld world(with_disk(file));
  const auto client = submit(world, letters(kPrompt, 5));
  REQUIRE(world.run([&] { return client->has_ended(); }));
  std::size_t num_written = 0;
  bool is_flushed = false;
  world.engine().flush(std::shared_ptr<const void>(nullptr, [&](const void*) {
    is_flushed = true;
    num_written = num_pages(*file);
  }));
  CHECK(!is_flushed);
  REQUIRE(world.run());
  CHECK(is_flushed);
  CHECK(num_written == 11);
}

TEST_CASE("disk tier: flushing an engine without a disk ends at once") {
  sim::SimWorld world(sim::small_settings());
  bool is_flushed = false;
  world.engine().flush(std::shared_ptr<const void>(nullptr, [&](const void*) { is_flushed = true; }));
  world.settle();
  CHECK(is_flushed);
}

TEST_CASE("disk tier: a conversation that is closed is in no tier any more") {
  const auto file = std::make_shared<sim::SimFile>();
  sim::SimWorld world(with_disk(file));
  const auto client = submit(world, letters(kPrompt, 5));
  REQUIRE(world.run());
  const std::string all = kPrompt + client->text();
  caf::anon_send(
      world.engine().actors().scheduler,
      ForgetPages{.tokens = std::make_shared<const std::vector<std::int32_t>>(ByteTokenizer().encode(all)),
                  .cache_salt = ""});
  REQUIRE(world.run());
  CHECK(num_pages(*file) == 0);
  const PageCounts counts = world.pages().counts();
  CHECK(counts.free == counts.total);
  CHECK(counts.host_free == counts.host_total);
  CHECK(counts.disk_free == counts.disk_total);
}

TEST_CASE("disk tier: pages that the disk lacks the space of are given back when conversations need it") {
  const auto file = file_after_one_answer();
  auto settings = with_disk(file);
  settings.disk.num_pages_lacking = 7;
  sim::SimWorld world(settings);
  world.settle();
  caf::anon_send(world.engine().actors().tier, MakeRoom{});
  world.settle();
  CHECK(num_pages(*file) == 4);
  // Nor are they taken again: what is left makes way for what comes.
  submit(world, letters("another", 5));
  REQUIRE(world.run());
  CHECK(num_pages(*file) <= 4);
  CHECK(world.pages().is_consistent());
}

TEST_CASE("disk tier: a disk without room for more stops nothing, and is used again when it has") {
  const auto file = std::make_shared<sim::SimFile>();
  auto settings = with_disk(file);
  settings.disk.percent_without_room = 100;
  {
    sim::SimWorld world(settings);
    const auto client = submit(world, letters(kPrompt, 5));
    REQUIRE(world.run());
    CHECK(client->finished());
    CHECK(num_pages(*file) == 0);
    CHECK(world.pages().is_consistent());
  }
  settings.disk.percent_without_room = 0;
  sim::SimWorld world(settings);
  submit(world, letters(kPrompt, 5));
  REQUIRE(world.run());
  CHECK(num_pages(*file) == 11);
}

TEST_CASE("disk tier: what nobody used for long is gone") {
  auto settings = with_disk();
  settings.options.serving.keep_for = std::chrono::seconds(100);
  sim::SimWorld world(settings);
  submit(world, letters(kPrompt, 5));
  REQUIRE(world.run());
  world.run_for(std::chrono::seconds(200));
  submit(world, letters("other", 1));
  REQUIRE(world.run());
  CHECK(world.metric("troupe_kv_pages_ended_total") == 12);
  CHECK(world.pages().counts().disk_total - world.pages().counts().disk_free == 1);
}

TEST_CASE("disk tier: another tenant does not find what is on disk") {
  sim::SimWorld world(with_disk(file_after_one_answer()));
  auto request = letters(kPrompt, 5);
  request.cache_salt = "another";
  const auto client = submit(world, std::move(request));
  REQUIRE(world.run());
  CHECK(client->finished()->usage.cached_tokens == 0);
  CHECK(world.metric("troupe_kv_pages_read_total") == 0);
}

}  // namespace
}  // namespace troupe
