// SPDX-License-Identifier: Apache-2.0
#include "app/backend_choice.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

#include "gpu/child/child_backend.hpp"
#include "gpu/cuda_library.hpp"
#include "store/state_directory.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

// The CPUs this process may use, in order.
std::vector<std::int32_t> usable_cpus() {
  std::vector<std::int32_t> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

CompletionSignal completion_signal(const std::string& name) {
  if (name == "host_function") return CompletionSignal::kHostFunction;
  if (name == "event") return CompletionSignal::kEvent;
  return CompletionSignal::kPolledWord;
}

// Of "cuda:N".
std::uint32_t ordinal_of(const std::string& device) {
  std::uint32_t ordinal = 0;
  const auto colon = device.find(':');
  if (colon != std::string::npos)
    std::from_chars(device.data() + colon + 1, device.data() + device.size(), ordinal);
  return ordinal;
}

// Where measured choices of products are kept: the state directory, which is there
// before the first device is made. Empty: nowhere, so they are not measured.
std::string product_choices(const Options& options) {
  if (options.store_directory == "none") return "";
  if (options.store_directory != "default") return options.store_directory;
  return default_state_directory().value_or("").string();
}

std::filesystem::path cuda_library(const Options& options) {
  return options.cuda_library.empty() ? default_cuda_library() : std::filesystem::path(options.cuda_library);
}

// Of NVIDIA, or of Windows below us. Opening the CUDA libraries takes longer than
// everything else at start, so without one that is not tried.
bool has_gpu_driver() {
  return std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg");
}

ChosenBackend make_in_child(const Options& options, child::BackendKind kind, const std::string& library) {
  return {.backend = child::make_child_backend(
              backend_settings(options),
              {.command = {.program = "/proc/self/exe",
                           .arguments = {"troupe", "worker", "--log-level", options.log_level, "--log-format",
                                         options.log_format}},
               .kind = kind,
               .library = library}),
          .options = options,
          .is_child = true};
}

// A CUDA context costs memory and can't be mended, so it is kept out of the
// server unless that is asked for. Without the library, or a driver, no process is
// started for it.
ChosenBackend make_cuda(const Options& asked) {
  const Options options = with_device_numbers(asked, DeviceKind::kGpu);
  const auto library = cuda_library(options);
  if (!std::filesystem::is_regular_file(library))
    throw std::runtime_error("there is no CUDA backend, " + library.string() + " is missing");
  if (options.device == "auto" && options.cuda_library.empty() && !has_gpu_driver())
    throw std::runtime_error("there is no GPU, /dev/nvidiactl is missing");
  if (options.worker_placement == "inline")
    return {.backend = load_cuda_library(library)(backend_settings(options)),
            .options = options,
            .is_child = false};
  return make_in_child(options, child::BackendKind::kCuda, library.string());
}

ChosenBackend make_host(const Options& asked) {
  const Options options = with_device_numbers(asked, DeviceKind::kHost);
  if (options.worker_placement == "child") return make_in_child(options, child::BackendKind::kHost, "");
  return {.backend = make_host_backend(backend_settings(options)), .options = options, .is_child = false};
}

}  // namespace

ChosenBackend choose_backend(const Options& options) {
  if (options.device == "host") return make_host(options);
  if (options.device != "auto") return make_cuda(options);
  try {
    return make_cuda(options);
  } catch (const std::exception& error) {
    log(LogLevel::kInfo, "no GPU is used, the model runs on the host", {{"reason", error.what()}});
    return make_host(options);
  }
}

Options with_device_numbers(Options options, DeviceKind kind) {
  const bool is_gpu = kind == DeviceKind::kGpu;
  if (options.max_batch_tokens == 0) options.max_batch_tokens = is_gpu ? 2048 : 512;
  if (options.prefill_chunk == 0)
    options.prefill_chunk = std::min<std::uint64_t>(is_gpu ? 2048 : 256, options.max_batch_tokens);
  return options;
}

BackendSettings backend_settings(const Options& options) {
  BackendSettings settings;
  settings.model_dir = options.model_dir;
  if (options.compute_type == "f32") settings.compute_type = DataType::kF32;
  if (options.compute_type == "bf16") settings.compute_type = DataType::kBF16;
  if (options.compute_type == "f16") settings.compute_type = DataType::kF16;
  settings.memory_budget_bytes = options.memory_bytes;
  settings.num_slots = static_cast<std::uint32_t>(options.max_batch_sequences);
  settings.max_batch_tokens = static_cast<std::uint32_t>(options.max_batch_tokens);
  settings.max_in_flight = static_cast<std::uint32_t>(options.max_in_flight);
  settings.deterministic = options.deterministic;
  settings.num_threads = static_cast<std::uint32_t>(options.threads);
  auto cpus = usable_cpus();
  const bool each_has_a_core = options.threads <= cpus.size();
  if (options.pin_threads && each_has_a_core) settings.cpus = std::move(cpus);
  settings.link = {.bytes_per_second = options.cache_link_bandwidth,
                   .latency = std::chrono::microseconds(options.cache_link_latency_us)};
  settings.ordinal = ordinal_of(options.device);
  settings.completion = completion_signal(options.cuda_completion);
  settings.uses_graphs = options.cuda_graphs;
  settings.product_choices = product_choices(options);
  return settings;
}

std::string cuda_in_words(const Options& options) {
  try {
    return make_cuda(options).backend->plan().device;
  } catch (const std::exception& error) {
    return std::string("no: ") + error.what();
  }
}

}  // namespace troupe
