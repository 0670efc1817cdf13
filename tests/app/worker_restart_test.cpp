// SPDX-License-Identifier: Apache-2.0
// The real model on the real device behind the real engine threads, with a
// device that dies in the middle of an answer.
#include "app/loading/model_loading.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "tests/app/dying_device.hpp"
#include "tests/app/text_sink.hpp"

using namespace troupe;

namespace {

Options demo_options() {
  Options options;
  options.models.front().dir = TROUPE_SOURCE_DIR "/models/demo";
  options.store_directory = "none";  // weights stay out of the state directory of who runs this
  options.memory_bytes = 64 << 20;
  return options;
}

// The first device dies at its `last` batch (0: never), its successors live.
std::string answer_with_death_at(const LoadedModel& model, Ticket last, float temperature) {
  Metrics metrics("demo");
  std::atomic<int> num_devices{0};
  const DeviceFactory factory = [&](WorkerId id) -> std::unique_ptr<Device> {
    return std::make_unique<DyingDevice>(model.make_device(id), num_devices++ == 0 ? last : 0);
  };
  Engine engine(model.served, factory, engine_options(demo_options()), metrics);
  GenerationRequest request;
  request.id = "test";
  request.prompt = ChatPrompt{.messages = {{"user", "Count from 5 to 60."}}};
  request.sampling = {.temperature = temperature, .seed = 7};
  request.max_tokens = 300;
  const auto sink = std::make_shared<TextSink>();
  engine.submit(std::move(request), sink);
  auto text = sink->wait();
  CHECK(num_devices == (last == 0 ? 1 : 2));
  return text;
}

}  // namespace

TEST_CASE("worker restart: a device dies in mid-answer and the text goes on as if nothing had happened") {
  const auto model = load_model(demo_options());
  for (const float temperature : {0.0F, 1.5F}) {
    const auto undisturbed = answer_with_death_at(model, 0, temperature);
    REQUIRE(undisturbed.size() > 100);
    for (const Ticket last : {1U, 2U, 7U, 40U}) {
      CAPTURE(last);
      CHECK(answer_with_death_at(model, last, temperature) == undisturbed);
    }
  }
}
