// SPDX-License-Identifier: Apache-2.0
// Long prompts on real threads, beside one whose encoding never ends by itself.
#include "actors/prompt_encoder.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>

#include "gpu/noop/noop_device.hpp"
#include "tests/actors/byte_model.hpp"
#include "tests/actors/recording_sink.hpp"
#include "tests/support/eventually.hpp"

namespace troupe {
namespace {

constexpr std::size_t kKilo = 1024;

// Texts that begin with '!' are worked on until that is interrupted.
class EndlessTokenizer final : public ByteTokenizer {
 public:
  std::vector<TokenId> encode_within(EncodingBudget& budget, std::string_view text,
                                     std::span<const TextRange> trusted) const override {
    if (!text.starts_with('!')) return ByteTokenizer::encode_within(budget, text, trusted);
    const Working working(num_working);
    while (true) budget.spend(1000);
  }

  mutable std::atomic<int> num_working{0};

 private:
  struct Working {
    explicit Working(std::atomic<int>& count) : count(count) { count += 1; }
    ~Working() { count -= 1; }
    std::atomic<int>& count;
  };
};

struct Fixture {
  explicit Fixture(EngineOptions options = {})
      : engine(
            model(), [](WorkerId) { return std::make_unique<NoopDevice>(large_device()); }, options,
            metrics) {
    REQUIRE(test::eventually([&] { return engine.status().state == EngineState::kReady; }));
  }

  static NoopDeviceSettings large_device() {
    auto settings = letters_device();
    settings.description.page_size = 1024;
    settings.description.num_pages = 8192;
    settings.description.context_length = 8 << 20;
    settings.description.max_batch_tokens = 8 << 20;
    return settings;
  }

  ServedModel model() {
    auto model = byte_model();
    model.tokenizer = tokenizer;
    return model;
  }

  std::shared_ptr<RecordingSink> submit(std::string text, const std::string& tenant = "") {
    GenerationRequest request;
    request.id = "test";
    request.tenant = request.flow = tenant;
    request.prompt = TextPrompt{std::move(text)};
    request.max_tokens = 1;
    auto sink = std::make_shared<RecordingSink>();
    last = engine.submit(std::move(request), sink);
    return sink;
  }

  // One that is being encoded, and will be for ever.
  RequestId submit_endless(std::size_t num_bytes) {
    const int num_before = tokenizer->num_working;
    submit(std::string(num_bytes, '!'));
    REQUIRE(test::eventually([&] { return tokenizer->num_working == num_before + 1; }));
    return last;
  }

  std::shared_ptr<const EndlessTokenizer> tokenizer = std::make_shared<const EndlessTokenizer>();
  Metrics metrics{"bytes"};
  RequestId last = 0;
  Engine engine;
};

EngineOptions without_deadline() {
  EngineOptions options;
  options.serving.max_queue_time = std::chrono::hours(1);
  options.serving.max_batch_tokens = 1 << 20;
  options.serving.prefill_chunk = 1 << 20;
  return options;
}

TEST_CASE("prompt encoder: a client that hangs up stops the encoding of its prompt") {
  Fixture fixture(without_deadline());
  const RequestId id = fixture.submit_endless(100 * kKilo);
  fixture.engine.cancel(id);
  CHECK(test::eventually([&] { return fixture.tokenizer->num_working == 0; }));
  // The thread is free again.
  const auto next = fixture.submit(std::string(100 * kKilo, 'x'));
  REQUIRE(next->wait_for_end());
  CHECK(next->finished());
}

TEST_CASE("prompt encoder: long prompts of all sizes at once hold up no shorter one") {
  Fixture fixture(without_deadline());
  for (const std::size_t limit : EncodingLanes::kLaneBytes) fixture.submit_endless(limit + 1);
  for (int i = 0; i < 10; ++i) {
    const auto neighbour = fixture.submit(std::string(5 * kKilo, 'x'));
    REQUIRE(neighbour->wait_for_end());
    CHECK(neighbour->finished());
  }
  CHECK(fixture.tokenizer->num_working == EncodingLanes::kLaneBytes.size());
}

TEST_CASE("prompt encoder: a prompt that waits may be dropped, and the next has its turn") {
  Fixture fixture(without_deadline());
  const RequestId first = fixture.submit_endless(100 * kKilo);
  const auto dropped = fixture.submit(std::string(101 * kKilo, '!'));
  const RequestId second = fixture.last;
  const auto waiting = fixture.submit(std::string(102 * kKilo, 'x'));
  fixture.engine.cancel(second);
  REQUIRE(dropped->wait_for_end());
  CHECK(waiting->num_terminal() == 0);
  fixture.engine.cancel(first);
  REQUIRE(waiting->wait_for_end());
  CHECK(waiting->finished());
  CHECK(fixture.tokenizer->num_working == 0);
}

TEST_CASE("prompt encoder: an encoding ends with the time a request may wait") {
  auto options = without_deadline();
  options.serving.max_queue_time = std::chrono::milliseconds(20);
  Fixture fixture(options);
  const auto sink = fixture.submit(std::string(100 * kKilo, '!'));
  REQUIRE(sink->wait_for_end());
  REQUIRE(sink->error());
  CHECK(sink->error()->kind == ApiErrorKind::kOverloaded);
  CHECK(test::eventually([&] { return fixture.tokenizer->num_working == 0; }));
}

TEST_CASE("prompt encoder: long prompts that are held are bounded in bytes") {
  auto options = without_deadline();
  options.max_prompt_bytes = 400 * kKilo;
  Fixture fixture(options);
  const RequestId first = fixture.submit_endless(90 * kKilo);
  fixture.submit(std::string(100 * kKilo, '!'));
  const auto refused = fixture.submit(std::string(90 * kKilo, 'x'));
  REQUIRE(refused->wait_for_end());
  REQUIRE(refused->error());
  CHECK(refused->error()->kind == ApiErrorKind::kOverloaded);
  // Another tenant finds room, and so does a short prompt of anybody's.
  const auto other = fixture.submit(std::string(80 * kKilo, 'x'), "other");
  const auto small = fixture.submit("hello");
  REQUIRE(small->wait_for_end());
  CHECK(small->finished());
  fixture.engine.cancel(first);
  fixture.engine.cancel(first + 1);
  REQUIRE(other->wait_for_end());
  CHECK(other->finished());
  const auto later = fixture.submit(std::string(90 * kKilo, 'x'));
  REQUIRE(later->wait_for_end());
  CHECK(later->finished());
}

TEST_CASE("prompt encoder: an engine that stops waits for no prompt") {
  Fixture fixture(without_deadline());
  fixture.submit_endless(100 * kKilo);
  fixture.submit_endless(2048 * kKilo);
  CHECK(fixture.engine.stop(std::chrono::seconds(20)));
}

}  // namespace
}  // namespace troupe
