// SPDX-License-Identifier: Apache-2.0
// The engine over the CUDA device, in the interpreter, with room for few penalized
// tokens in a batch: requests whose lists do not fit together.
#include <cuda_runtime.h>  // the twin

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "app/loading/model_loading.hpp"
#include "gpu/cuda/cuda_device.hpp"
#include "tests/app/text_sink.hpp"
#include "tests/simt/runtime/runtime.hpp"

using namespace troupe;

namespace {

constexpr std::uint32_t kMaxPenalized = 20;
constexpr std::uint32_t kNumNew = 5;
constexpr const char* kPrompts[] = {"Count from 3 to 20.", "My name is Anna."};

Options demo_options() {
  Options options;
  options.models.front().dir = TROUPE_SOURCE_DIR "/models/demo";
  options.compute_type = "bf16";
  options.store_directory = "none";  // weights stay out of the state directory of who runs this
  options.memory_bytes = 64 << 20;
  return options;
}

std::shared_ptr<const cuda::CudaModel> load_cuda_model() {
  BackendSettings settings;
  settings.model_dir = demo_options().models.front().dir;
  settings.compute_type = DataType::kBF16;
  settings.num_slots = 2;
  settings.max_batch_tokens = 64;
  settings.max_pages = 16;
  cuda::CudaModelPlan plan = cuda::plan_cuda_model(settings);
  plan.capacity.penalized = kMaxPenalized;
  std::string news;
  return std::make_shared<const cuda::CudaModel>(plan, news);
}

// Whose lists were in batches, in order.
struct Turns {
  std::mutex mutex;
  std::vector<std::uint64_t> sequences;
  std::size_t longest_list = 0;
  int num_devices = 0;

  std::size_t num_changes() const {
    std::size_t changes = 0;
    for (std::size_t i = 1; i < sequences.size(); ++i) changes += sequences[i] != sequences[i - 1] ? 1 : 0;
    return changes;
  }
};

class WatchedDevice final : public Device {
 public:
  WatchedDevice(std::unique_ptr<Device> inner, Turns& turns) : inner_(std::move(inner)), turns_(turns) {}

  const DeviceDescription& description() const override { return inner_->description(); }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override {
    {
      const std::lock_guard lock(turns_.mutex);
      for (const SequenceSlice& slice : batch->slices) {
        if (!slice.penalized.empty()) turns_.sequences.push_back(slice.sequence);
        turns_.longest_list = std::max(turns_.longest_list, slice.penalized.size());
      }
    }
    return inner_->submit(std::move(program), std::move(batch));
  }
  Ticket completed() const noexcept override { return inner_->completed(); }
  BatchResult collect(Ticket ticket) override { return inner_->collect(ticket); }
  void set_listener(std::function<void()> listener) override { inner_->set_listener(std::move(listener)); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return inner_->poll_delay(); }

 private:
  std::unique_ptr<Device> inner_;
  Turns& turns_;
};

GenerationRequest request_of(const std::string& prompt) {
  GenerationRequest request;
  request.id = "test";
  request.prompt = ChatPrompt{.messages = {{"user", prompt}}};
  request.sampling = {.temperature = 0.0F, .repetition_penalty = 1.3F, .frequency_penalty = 0.5F};
  request.max_tokens = kNumNew;
  request.ignore_eos = true;
  return request;
}

std::vector<std::string> answers_to(const LoadedModel& model,
                                    const std::shared_ptr<const cuda::CudaModel>& cuda_model,
                                    const std::vector<std::string>& prompts, Turns& turns) {
  Metrics metrics("demo");
  const DeviceFactory factory = [&](WorkerId) -> std::unique_ptr<Device> {
    turns.num_devices += 1;
    return std::make_unique<WatchedDevice>(std::make_unique<cuda::CudaDevice>(cuda_model), turns);
  };
  Engine engine(model.served, factory, engine_options(demo_options()), metrics);
  std::vector<std::shared_ptr<TextSink>> sinks;
  for (const std::string& prompt : prompts) {
    sinks.push_back(std::make_shared<TextSink>());
    engine.submit(request_of(prompt), sinks.back());
  }
  std::vector<std::string> answers;
  for (const auto& sink : sinks) answers.push_back(sink->wait());
  return answers;
}

}  // namespace

TEST_CASE("cuda worker: lists of penalized tokens that do not fit together change no answer") {
  const simt::Runtime runtime;
  const auto model = load_model(demo_options());
  const auto cuda_model = load_cuda_model();
  std::vector<std::string> alone;
  for (const char* prompt : kPrompts) {
    Turns turns;
    alone.push_back(answers_to(model, cuda_model, {prompt}, turns).front());
    CHECK(turns.longest_list > kMaxPenalized / 2);
    CHECK(turns.longest_list <= kMaxPenalized);
  }
  CHECK(alone[0] != alone[1]);
  Turns turns;
  CHECK(answers_to(model, cuda_model, {kPrompts[0], kPrompts[1]}, turns) == alone);
  CHECK(turns.num_devices == 1);
  CHECK(turns.num_changes() >= kNumNew);
}
