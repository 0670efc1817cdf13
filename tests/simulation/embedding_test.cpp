// SPDX-License-Identifier: Apache-2.0
// A model that encodes beside one that generates, on the real actors: a seed decides
// what is asked for, who hangs up, and which workers die of what.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "actors/embedding.hpp"
#include "policy/admitting/encoding_lanes.hpp"
#include "telemetry/log.hpp"
#include "tests/simulation/sim_client.hpp"
#include "tests/simulation/sim_world.hpp"

namespace troupe::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class VectorSink final : public ResponseSink {
 public:
  void deliver(ResponseEvent event) override {
    num_events += 1;
    if (auto* given = std::get_if<Embedded>(&event)) embedded = std::move(*given);
    if (auto* failed = std::get_if<Failed>(&event)) error = failed->error;
    if (const auto* finished = std::get_if<Finished>(&event))
      was_cancelled = finished->reason == FinishReason::kCancelled;
  }
  std::size_t pending_bytes() const noexcept override { return 0; }

  int num_events = 0;
  std::optional<Embedded> embedded;
  std::optional<ApiError> error;
  bool was_cancelled = false;
};

SimSettings settings_with_encoder() {
  SimSettings settings = small_settings();
  settings.encoder = small_encoder();
  return settings;
}

EmbeddingRequest request_of(const std::vector<std::string>& texts) {
  EmbeddingRequest request;
  request.id = "embd-1";
  request.model = 1;
  for (const auto& text : texts) request.inputs.emplace_back(TextPrompt{text});
  return request;
}

std::vector<float> vector_of(const std::string& text) {
  return sim_vector(std::vector<std::int32_t>(text.begin(), text.end()));
}

std::vector<float> input(const Embedded& embedded, std::size_t index) {
  const auto first = embedded.vectors.begin() + static_cast<std::ptrdiff_t>(index * embedded.size);
  return {first, first + embedded.size};
}

GenerationRequest chat_of(const std::string& text, std::uint32_t max_tokens) {
  GenerationRequest request;
  request.prompt = TextPrompt{text};
  request.max_tokens = max_tokens;
  request.sampling.seed = 7;
  return request;
}

}  // namespace

TEST_CASE("embedding: texts and token ids get their vectors, in order") {
  SimWorld world(settings_with_encoder());
  EmbeddingRequest request = request_of({"abc", "hello"});
  request.inputs.emplace_back(TokenPrompt{{1, 2, 3}});
  const auto sink = std::make_shared<VectorSink>();
  world.engine().embed(std::move(request), sink);
  world.run();
  REQUIRE(sink->embedded.has_value());
  CHECK(input(*sink->embedded, 0) == vector_of("abc"));
  CHECK(input(*sink->embedded, 1) == vector_of("hello"));
  CHECK(input(*sink->embedded, 2) == std::vector<float>{6, 3});
  CHECK(sink->embedded->prompt_tokens == 11);
  CHECK(sink->num_events == 1);
  CHECK(world.metric("troupe_embedding_requests_total") == 1);
  CHECK(world.metric("troupe_encoder_inputs_total") == 3);
}

TEST_CASE("embedding: long texts are encoded elsewhere, more inputs than fit at once come in turn") {
  SimSettings settings = settings_with_encoder();
  settings.options.serving.max_waiting = 100;
  SimWorld world(settings);
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) texts.push_back("text number " + std::to_string(i));
  const auto sink = std::make_shared<VectorSink>();
  world.engine().embed(request_of(texts), sink);
  std::size_t most = 0;
  world.run([&] {
    most = std::max(most, world.scheduler().num_sequences());
    return false;
  });
  REQUIRE(sink->embedded.has_value());
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK(input(*sink->embedded, i) == vector_of(texts[i]));
  CHECK(most <= EmbeddingState::kInputsAtOnce);
  CHECK(most > 8);
}

TEST_CASE("embedding: an input that is too long is refused, or loses its end where that is asked for") {
  SimWorld world(settings_with_encoder());  // inputs of at most 40 tokens
  const std::string text(50, 'x');
  const auto refused = std::make_shared<VectorSink>();
  world.engine().embed(request_of({"a", text}), refused);
  world.run();
  REQUIRE(refused->error.has_value());
  CHECK(refused->error->kind == ApiErrorKind::kContextTooLong);
  EmbeddingRequest request = request_of({"a", text});
  request.truncates = true;
  request.inputs.emplace_back(TokenPrompt{std::vector<std::int32_t>(60, 2)});
  const auto cut = std::make_shared<VectorSink>();
  world.engine().embed(std::move(request), cut);
  world.run();
  REQUIRE(cut->embedded.has_value());
  CHECK(input(*cut->embedded, 1) == vector_of(text.substr(0, 40)));
  CHECK(input(*cut->embedded, 2) == std::vector<float>{80, 40});
}

TEST_CASE("embedding: a model is asked for what it can do only") {
  SimWorld world(settings_with_encoder());
  const auto wrong_kind = std::make_shared<VectorSink>(), unknown = std::make_shared<VectorSink>(),
             text = std::make_shared<VectorSink>();
  EmbeddingRequest request = request_of({"a"});
  request.model = 0;
  world.engine().embed(request, wrong_kind);
  request.model = 2;
  world.engine().embed(request, unknown);
  GenerationRequest generation = chat_of("a", 4);
  generation.model = 1;
  world.engine().submit(generation, text);
  const auto none = std::make_shared<VectorSink>();
  world.engine().embed(request_of({}), none);
  world.run();
  CHECK(wrong_kind->error->message == "The model bytes gives no embeddings.");
  CHECK(unknown->error->kind == ApiErrorKind::kModelNotFound);
  CHECK(text->error->message == "The model encoder generates no text.");
  CHECK(none->error->kind == ApiErrorKind::kInvalidRequest);
}

TEST_CASE("embedding: a request that has begun is finished, however long it takes and however full it is") {
  SimSettings settings = settings_with_encoder();
  settings.options.serving.max_waiting = 4;
  settings.options.serving.max_queue_time = milliseconds(50);
  settings.encoder->batch_time = milliseconds(5);
  SimWorld world(settings);
  std::vector<std::string> texts;
  for (int i = 0; i < 400; ++i) texts.push_back("text number " + std::to_string(i));
  const auto large = std::make_shared<VectorSink>();
  world.engine().embed(request_of(texts), large);
  std::vector<std::shared_ptr<VectorSink>> small;
  for (int i = 0; i < 40; ++i)
    world.after(milliseconds(3 * i), [&, i] {
      small.push_back(std::make_shared<VectorSink>());
      EmbeddingRequest request = request_of({"small"});
      request.flow = "other " + std::to_string(i % 3);
      world.engine().embed(std::move(request), small.back());
    });
  world.run();
  REQUIRE(large->embedded.has_value());
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK(input(*large->embedded, i) == vector_of(texts[i]));
  CHECK(std::all_of(small.begin(), small.end(), [](const auto& sink) { return sink->embedded.has_value(); }));
}

TEST_CASE("embedding: padded, planned or waiting for others, texts get the vectors that they have without") {
  for (const EncoderBatching arm : {EncoderBatching::kPadded, EncoderBatching::kNone, EncoderBatching::kDp}) {
    SimSettings settings = settings_with_encoder();
    settings.options.serving.encoder_batching = arm;
    settings.options.serving.encoder_trigger = BatchTrigger::kLazy;
    settings.options.serving.encoder_timeout = milliseconds(20);
    SimWorld world(settings);
    std::vector<std::shared_ptr<VectorSink>> sinks;
    for (std::size_t i = 0; i < 12; ++i) {
      sinks.push_back(std::make_shared<VectorSink>());
      world.engine().embed(request_of({std::string(1 + 3 * i, 'x')}), sinks.back());
    }
    world.run();
    for (std::size_t i = 0; i < sinks.size(); ++i) {
      REQUIRE(sinks[i]->embedded.has_value());
      CHECK(input(*sinks[i]->embedded, 0) == vector_of(std::string(1 + 3 * i, 'x')));
    }
  }
}

TEST_CASE("embedding: an input that comes again from its tenant is answered without a batch") {
  SimSettings settings = settings_with_encoder();
  settings.options.serving.vector_cache_bytes = 1U << 20U;
  SimWorld world(settings);
  const auto ask = [&](const std::string& tenant, const std::vector<std::string>& texts) {
    EmbeddingRequest request = request_of(texts);
    request.tenant = tenant;
    const auto sink = std::make_shared<VectorSink>();
    world.engine().embed(std::move(request), sink);
    world.run();
    REQUIRE(sink->embedded.has_value());
    return *sink->embedded;
  };
  const Embedded first = ask("a", {"abc", "hello"});
  CHECK(world.metric("troupe_encoder_inputs_total") == 2);
  const Embedded again = ask("a", {"abc", "hello"});
  CHECK(again.vectors == first.vectors);
  CHECK(again.prompt_tokens == first.prompt_tokens);
  CHECK(world.metric("troupe_encoder_inputs_total") == 2);
  CHECK(ask("a", {"new", "abc", "other"}).vectors.size() == 6);  // some of a request
  CHECK(world.metric("troupe_encoder_inputs_total") == 4);
  CHECK(ask("b", {"abc"}).vectors == vector_of("abc"));  // another's
  CHECK(world.metric("troupe_encoder_inputs_total") == 5);
  CHECK(world.metric("troupe_embedding_requests_total") == 4);
  CHECK(world.metric("troupe_embedding_cache_queries_total") == 8);
  CHECK(world.metric("troupe_embedding_cache_hits_total") == 3);
  CHECK(world.metric("troupe_embedding_cache_bytes") > 0);
}

TEST_CASE("embedding: vectors are not kept unless that is asked for") {
  SimWorld world(settings_with_encoder());
  for (int i = 0; i < 2; ++i) {
    world.engine().embed(request_of({"abc"}), std::make_shared<VectorSink>());
    world.run();
  }
  CHECK(world.metric("troupe_encoder_inputs_total") == 2);
  CHECK(world.metric("troupe_embedding_cache_queries_total") == 0);
}

TEST_CASE("embedding: of several inputs the one at fault is named") {
  SimWorld world(settings_with_encoder());
  EmbeddingRequest request = request_of({"a", "b"});
  request.inputs.emplace_back(TokenPrompt{{1, 100'000}});
  const auto sink = std::make_shared<VectorSink>();
  world.engine().embed(std::move(request), sink);
  world.run();
  REQUIRE(sink->error.has_value());
  CHECK(sink->error->field == "input[2]");
}

TEST_CASE("embedding: an encoder that is listed first leaves the disk to the model that generates") {
  SimSettings settings = settings_with_encoder();
  settings.encoder_is_first = true;
  SimWorld world(settings);
  EmbeddingRequest request = request_of({"abc"});
  request.model = 0;
  const auto sink = std::make_shared<VectorSink>();
  world.engine().embed(std::move(request), sink);
  ClientPlan plan;
  plan.request = chat_of("prompt", 12);
  plan.request.model = 1;
  const auto chat = std::make_shared<SimClient>(world, std::move(plan));
  chat->start();
  world.run();
  CHECK(sink->embedded.has_value());
  CHECK(chat->has_ended());
  CHECK_FALSE(chat->error().has_value());
  CHECK(world.devices().violations.empty());
}

TEST_CASE("embedding: a client that leaves takes all of its inputs along") {
  SimWorld world(settings_with_encoder());
  std::vector<std::string> texts(200, "some text of an input");
  const auto sink = std::make_shared<VectorSink>();
  const RequestId id = world.engine().embed(request_of(texts), sink);
  world.after(milliseconds(1), [&] { world.engine().cancel(id); });
  world.run();
  CHECK(sink->was_cancelled);
  CHECK(sink->num_events == 1);
  CHECK(world.scheduler().num_sequences() == 0);
  CHECK(world.engine().environment().board->num_open == 0);
}

TEST_CASE("embedding: whatever workers die of, streams and vectors come out right") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  std::uint64_t num_deaths = 0, num_vectors = 0, num_condemned = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&random](std::uint64_t n) { return random() % n; };
    SimSettings settings = settings_with_encoder();
    settings.seed = seed;
    settings.options.num_workers = 1 + static_cast<std::uint32_t>(draw(2));
    settings.options.max_restarts = 100;
    settings.options.serving.max_waiting = 200;
    settings.options.serving.max_queue_time = std::chrono::hours(1);  // a device that hangs takes its time
    settings.options.serving.itl_factor = draw(2) == 0 ? 0.0 : 2.5;
    settings.encoder->token_time = std::chrono::nanoseconds(draw(4000));
    settings.device.can_be_abandoned = settings.encoder->can_be_abandoned = true;
    SimWorld world(settings);
    const std::uint64_t interval = draw(3) == 0 ? 0 : 20 + draw(60);
    world.devices().choose_fault = [&](const Batch&, std::uint64_t number) {
      if (interval == 0 || number % interval != 0) return Fault::kNone;
      num_deaths += 1;
      constexpr std::array kFaults = {Fault::kBatchError, Fault::kThrowInCollect, Fault::kThrowInSubmit,
                                      Fault::kNeverCompletes};
      return kFaults[draw(kFaults.size())];
    };
    std::vector<std::shared_ptr<SimClient>> chats;
    for (std::uint64_t i = 0; i < 1 + draw(8); ++i) {
      ClientPlan plan;
      plan.request =
          chat_of("prompt " + std::to_string(draw(1000)), 1 + static_cast<std::uint32_t>(draw(40)));
      chats.push_back(std::make_shared<SimClient>(world, std::move(plan)));
      world.after(microseconds(draw(20'000)), [chat = chats.back()] { chat->start(); });
    }
    struct Asked {
      std::vector<std::string> texts;
      std::shared_ptr<VectorSink> sink = std::make_shared<VectorSink>();
      RequestId id = 0;
      bool leaves = false;
    };
    std::vector<std::shared_ptr<Asked>> asked;
    for (std::uint64_t i = 0; i < 1 + draw(5); ++i) {
      auto one = std::make_shared<Asked>();
      for (std::uint64_t n = 1 + draw(100); n > 0; --n)
        one->texts.push_back(std::string(1 + draw(40), static_cast<char>('a' + draw(26))));
      asked.push_back(one);
      const auto begin = microseconds(draw(20'000));
      world.after(begin,
                  [one, &world] { one->id = world.engine().embed(request_of(one->texts), one->sink); });
      one->leaves = draw(4) == 0;
      if (one->leaves)
        world.after(begin + microseconds(draw(5000)), [one, &world] { world.engine().cancel(one->id); });
    }
    REQUIRE(world.run([&] {
      return std::all_of(chats.begin(), chats.end(), [](const auto& chat) { return chat->has_ended(); }) &&
             std::all_of(asked.begin(), asked.end(),
                         [](const auto& one) { return one->sink->num_events > 0; });
    }));
    world.run_for(milliseconds(1));
    const auto& violations = world.devices().violations;
    CHECK((violations.empty() ? "" : violations.front()) == "");
    // A death that has nothing to do with it may meet a request's trial (decision 0014).
    const auto is_condemned = [](const std::optional<ApiError>& error) {
      return error && error->message.find("failed repeatedly") != std::string::npos;
    };
    for (const auto& chat : chats) {
      num_condemned += is_condemned(chat->error()) ? 1 : 0;
      CHECK((chat->error() && !is_condemned(chat->error()) ? chat->error()->message : "") == "");
    }
    for (const auto& one : asked) {
      CHECK(one->sink->num_events == 1);
      if (one->leaves && one->sink->was_cancelled) continue;
      num_condemned += is_condemned(one->sink->error) ? 1 : 0;
      if (is_condemned(one->sink->error)) continue;
      CHECK((one->sink->error ? one->sink->error->message : "") == "");
      REQUIRE(one->sink->embedded.has_value());
      num_vectors += one->texts.size();
      for (std::size_t i = 0; i < one->texts.size(); ++i)
        CHECK(input(*one->sink->embedded, i) == vector_of(one->texts[i]));
    }
    CHECK(world.scheduler().num_sequences() == 0);
    CHECK(world.engine().environment().board->num_open == 0);
    CHECK(world.pages().counts().running == 0);
  }
  CHECK(num_deaths > 100);
  CHECK(num_condemned < num_deaths / 50);
  CHECK(num_vectors > 5000);
}

}  // namespace troupe::sim
