// SPDX-License-Identifier: Apache-2.0
#include "app/loading/backend_choice.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

#include "app/loading/all_gpus.hpp"
#include "app/loading/cpu_placement.hpp"
#include "app/loading/hardware.hpp"
#include "app/options/configuration_error.hpp"
#include "gpu/child/child_backend.hpp"
#include "gpu/cpu/cpu_cores.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/cuda_library.hpp"
#include "store/state_directory.hpp"
#include "telemetry/log.hpp"
#include "telemetry/shipped_path.hpp"

namespace troupe {
namespace {

CompletionSignal completion_signal(const std::string& name) {
  if (name == "host_function") return CompletionSignal::kHostFunction;
  if (name == "event") return CompletionSignal::kEvent;
  return CompletionSignal::kPolledWord;
}

// N of "cuda:N".
std::uint32_t ordinal_of(const std::string& device) {
  std::uint32_t ordinal = 0;
  const auto colon = device.find(':');
  if (colon != std::string::npos)
    std::from_chars(device.data() + colon + 1, device.data() + device.size(), ordinal);
  return ordinal;
}

// Where devices keep what later starts need: the state directory, which is there
// before the first device is made. Empty: nowhere.
std::string kept_directory(const Options& options) {
  if (options.store_directory == "none") return "";
  if (options.store_directory != "default") return options.store_directory;
  return default_state_directory().value_or("").string();
}

std::filesystem::path cuda_library(const Options& options) {
  return options.cuda_library.empty() ? default_cuda_library() : std::filesystem::path(options.cuda_library);
}

std::string no_library(const std::filesystem::path& library) {
  return "there is no CUDA backend, " + library.string() + " is missing";
}

// Comes with the programs, once measured on a GPU (docs/results/cuda.md).
constexpr const char* kShippedGemmChoices = "configs/gpus";
constexpr const char* kAllGpus = "cuda:all";
constexpr const char* kKvTypeOnCpu = "--kv-type: KV in 8 bits is kept on the CPU only, with --device cpu";
constexpr const char* kActivationsOnCpu =
    "--activations: rows of products are rounded to 8 bits on the CPU only, with --device cpu";
constexpr const char* kQuantizedOnCpu = "quantized weights run on the CPU only, with --device cpu";

bool makes_blocks(const Options& options) { return options.quantize == "q8" || options.quantize == "q4"; }

// Processes have nothing of each other's memory, so each gets its share of all of it.
BackendSettings cpu_settings_in_child(const Options& options) {
  BackendSettings settings = backend_settings(options);
  if (options.num_workers == 1) return settings;
  if (settings.memory_budget_bytes == 0) settings.memory_budget_bytes = available_memory_bytes() / 4 * 3;
  settings.memory_budget_bytes /= options.num_workers;
  settings.num_devices = 1;
  return settings;
}

child::ChildBackendSettings child_settings(const Options& options, child::BackendKind kind,
                                           const std::string& library) {
  return {.command = {.program = "/proc/self/exe",
                      .arguments = {"troupe", "worker", "--log-level", options.log_level, "--log-format",
                                    options.log_format}},
          .kind = kind,
          .library = library};
}

// A CUDA context costs memory and can't be mended, so it is kept out of the
// server unless that is asked for. Without the library, or a driver, no process is
// started for it.
ChosenBackend make_cuda(const Options& asked) {
  const bool takes_all = asked.device == kAllGpus;
  if (asked.num_workers > 1 && !takes_all) throw std::runtime_error("--workers: a GPU runs one worker");
  if (asked.kv_type == "q8") throw std::runtime_error(kKvTypeOnCpu);
  if (asked.activations == "q8") throw std::runtime_error(kActivationsOnCpu);
  if (makes_blocks(asked)) throw std::runtime_error("--quantize: " + std::string(kQuantizedOnCpu));
  Options options = with_device_numbers(asked, DeviceKind::kGpu);
  const auto library = cuda_library(options);
  if (!std::filesystem::is_regular_file(library)) throw std::runtime_error(no_library(library));
  // Opening the CUDA libraries takes longer than everything else at start.
  if (options.device == "auto" && options.cuda_library.empty() && !has_gpu_driver())
    throw std::runtime_error("there is no GPU, /dev/nvidiactl is missing");
  const bool is_child = options.worker_placement != "inline";
  MakeGpuBackend make_backend;
  if (is_child) {
    make_backend = [child = child_settings(options, child::BackendKind::kCuda, library.string())](
                       const BackendSettings& settings) {
      return child::make_child_backend(settings, child);
    };
  } else {
    make_backend = load_cuda_library(library);
  }
  // --memory is that of each GPU.
  const BackendSettings settings = backend_settings(options);
  std::unique_ptr<Backend> backend = takes_all
                                         ? make_backend_of_all_gpus(settings, asked.num_workers, make_backend)
                                         : make_backend(settings);
  if (takes_all) options.num_workers = std::max(backend->plan().num_gpus, 1U);
  if (options.serving.max_in_flight == 0) options.serving.max_in_flight = backend->plan().max_in_flight;
  return {.backend = std::move(backend), .options = options, .is_child = is_child};
}

ChosenBackend make_cpu(const Options& asked, std::shared_ptr<CpuCores> cores) {
  const Options options = with_device_numbers(asked, DeviceKind::kCpu);
  if (options.worker_placement == "child")
    return {.backend = child::make_child_backend(cpu_settings_in_child(options),
                                                 child_settings(options, child::BackendKind::kCpu, "")),
            .options = options,
            .is_child = true};
  return {.backend = make_cpu_backend(backend_settings(options), std::move(cores)),
          .options = options,
          .is_child = false};
}

}  // namespace

void check_cuda_settings(const Options& options) {
  const bool is_one_gpu = options.device.starts_with("cuda") && options.device != kAllGpus;
  if (is_one_gpu && options.num_workers > 1)
    throw ConfigurationError("--workers: a GPU runs one worker; --device cuda:all has one on each");
  if (options.device.starts_with("cuda") && options.kv_type == "q8") throw ConfigurationError(kKvTypeOnCpu);
  if (options.device.starts_with("cuda") && options.activations == "q8")
    throw ConfigurationError(kActivationsOnCpu);
  if (options.device.starts_with("cuda") && makes_blocks(options))
    throw ConfigurationError("--quantize: " + std::string(kQuantizedOnCpu));
  if (options.device.starts_with("cuda") && options.models.size() > 1 && options.memory_bytes == 0)
    throw ConfigurationError("--memory: several models on a GPU need to be told how much they have together");
  const bool looks_for_gpu = options.device != "cpu" && options.device != "noop";
  const bool needs_library = options.device != "auto" || !options.cuda_library.empty();
  const auto library = cuda_library(options);
  if (looks_for_gpu && needs_library && !std::filesystem::is_regular_file(library))
    throw ConfigurationError("--device, --cuda-library: " + no_library(library));
}

ChosenBackend choose_backend(const Options& options, std::shared_ptr<CpuCores> cores) {
  check_cuda_settings(options);
  if (options.device == "cpu") return make_cpu(options, std::move(cores));
  if (options.device != "auto") return make_cuda(options);
  try {
    return make_cuda(options);
  } catch (const std::exception& error) {
    log(LogLevel::kInfo, "no GPU is used, the model runs on the CPU", {{"reason", error.what()}});
    return make_cpu(options, std::move(cores));
  }
}

std::shared_ptr<CpuCores> make_cpu_cores(const Options& options) {
  const BackendSettings settings = backend_settings(options);
  ThreadPoolOptions threads{.num_threads = settings.num_threads,
                            .cpus = {settings.cpus.begin(), settings.cpus.end()}};
  if (!threads.cpus.empty()) threads.cpus.resize(threads.num_threads);
  return std::make_shared<CpuCores>(settings.num_devices, threads);
}

Options with_device_numbers(Options options, DeviceKind kind) {
  const bool is_gpu = kind == DeviceKind::kGpu;
  if (options.num_workers == 0) options.num_workers = 1;
  ServingSettings& serving = options.serving;
  if (serving.max_batch_sequences == 0) serving.max_batch_sequences = default_sequences(kind);
  // A GPU's backend knows how long its batches take at least.
  if (serving.max_in_flight == 0 && !is_gpu) serving.max_in_flight = kDefaultInFlight;
  if (options.serving.max_batch_tokens == 0) options.serving.max_batch_tokens = is_gpu ? 2048 : 512;
  if (options.serving.prefill_chunk == 0)
    options.serving.prefill_chunk = std::min(is_gpu ? 2048U : 256U, options.serving.max_batch_tokens);
  return options;
}

BackendSettings backend_settings(const Options& options) {
  BackendSettings settings;
  settings.model_dir = options.models.front().dir;
  if (options.compute_type == "f32") settings.compute_type = DataType::kF32;
  if (options.compute_type == "bf16") settings.compute_type = DataType::kBF16;
  if (options.compute_type == "f16") settings.compute_type = DataType::kF16;
  settings.memory_budget_bytes = options.memory_bytes;
  settings.num_slots = options.serving.max_batch_sequences;
  settings.max_batch_tokens = options.serving.max_batch_tokens;
  settings.max_in_flight = options.serving.max_in_flight;
  settings.deterministic = options.deterministic;
  if (options.quantize == "none") settings.quantization = Quantization::kNone;
  if (options.quantize == "q8") settings.quantization = Quantization::kQ8;
  if (options.quantize == "q4") settings.quantization = Quantization::kQ4;
  if (options.kv_type == "q8") settings.kv_type = KvType::kQ8;
  if (options.activations == "auto") settings.activations = Activations::kBelow8Bits;
  if (options.activations == "q8") settings.activations = Activations::kQ8;
  settings.num_devices = static_cast<std::uint32_t>(std::max<std::uint64_t>(options.num_workers, 1));
  const CpuPlacement placement = cpu_placement(options);
  const GrantedCpus granted = granted_for_computing(options);
  const std::uint64_t num_threads = options.threads > 0 ? options.threads : default_threads(granted);
  settings.num_threads =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(num_threads / settings.num_devices, 1));
  auto cpus = placement.compute;
  // None is bound to a core where several workers or other containers may use the same ones: which are
  // whose is the system's affair, unless they are named.
  if (!placement.is_asked_for && (options.num_workers > 1 || has_cpu_quota(granted))) cpus.clear();
  cpus.erase(cpus.begin(), cpus.begin() + static_cast<std::ptrdiff_t>(
                                              std::min(options.first_cpu, std::uint64_t{cpus.size()})));
  const bool each_has_a_core = options.threads <= cpus.size();
  if (placement.is_asked_for && !(options.pin_threads && each_has_a_core))
    throw ConfigurationError("--cpus, --io-cpus: expected a CPU for each compute thread of all models");
  if (options.pin_threads && each_has_a_core) settings.cpus = std::move(cpus);
  settings.link = {.bytes_per_second = options.cache_link_bandwidth,
                   .latency = std::chrono::microseconds(options.cache_link_latency_us)};
  settings.ordinal = ordinal_of(options.device);
  settings.completion = completion_signal(options.cuda_completion);
  settings.uses_graphs = options.cuda_graphs;
  settings.gemm_choices = kept_directory(options);
  settings.shipped_gemm_choices = shipped_beside_program(kShippedGemmChoices).string();
  if (!settings.gemm_choices.empty()) settings.kept_weights = settings.gemm_choices + "/weights";
  settings.kept_weights_bytes = options.weights_disk_space;
  return settings;
}

bool has_gpu_driver() {
  return std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg");
}

std::string cuda_in_words(const Options& options) {
  try {
    return make_cuda(options).backend->plan().device;
  } catch (const std::exception& error) {
    return std::string("no: ") + error.what();
  }
}

}  // namespace troupe
