// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_timer.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::cuda {
namespace {

constexpr double kTrainMicroseconds = 300.0;
constexpr std::size_t kLongestTrain = 32;  // runs: with as many layers, each reads another weight
constexpr int kTrains = 3;

class Event {
 public:
  Event() { CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Ends the capture also when what is captured throws: a stream that captures for
// ever can do nothing else.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  ~Capture() {
    if (!is_ended_) cudaStreamEndCapture(stream_, &graph_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraph_t end() {
    is_ended_ = true;
    CUDA_CHECK(cudaStreamEndCapture(stream_, &graph_));
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool is_ended_ = false;
};

class ExecutableGraph {
 public:
  explicit ExecutableGraph(cudaGraph_t graph) { CUDA_CHECK(cudaGraphInstantiate(&graph_, graph, 0)); }
  ~ExecutableGraph() { cudaGraphExecDestroy(graph_); }
  ExecutableGraph(const ExecutableGraph&) = delete;
  ExecutableGraph& operator=(const ExecutableGraph&) = delete;
  cudaGraphExec_t get() const { return graph_; }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

class GemmTimer::Implementation {
 public:
  explicit Implementation(cudaStream_t stream) : stream_(stream) {
    if (stream == nullptr) {
      throw std::invalid_argument("the default stream cannot be captured, and not be timed");
    }
  }

  double microseconds_of(const GemmRun& run) {
    run(0);  // loads the kernels
    const double once = microseconds_between([&] { run(1); });
    const auto length = static_cast<std::size_t>(std::clamp(
        std::ceil(kTrainMicroseconds / std::max(once, 1e-3)), 1.0, static_cast<double>(kLongestTrain)));
    Capture capture(stream_);
    for (std::size_t i = 0; i < length; ++i) run(i);
    const ExecutableGraph train(capture.end());
    const auto launch = [&] { CUDA_CHECK(cudaGraphLaunch(train.get(), stream_)); };
    launch();  // brings the graph to the device
    double least = microseconds_between(launch);
    for (int i = 1; i < kTrains; ++i) least = std::min(least, microseconds_between(launch));
    return least / static_cast<double>(length);
  }

 private:
  template <typename Start>
  double microseconds_between(Start start) {
    CUDA_CHECK(cudaEventRecord(begin_.get(), stream_));
    start();
    CUDA_CHECK(cudaEventRecord(end_.get(), stream_));
    CUDA_CHECK(cudaEventSynchronize(end_.get()));
    float milliseconds = 0.0F;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
    return milliseconds * 1e3;
  }

  cudaStream_t stream_;
  Event begin_, end_;
};

GemmTimer::GemmTimer(StreamHandle stream) : implementation_(std::make_unique<Implementation>(stream)) {}
GemmTimer::~GemmTimer() = default;

std::optional<double> GemmTimer::operator()(const GemmRun& run) {
  try {
    return implementation_->microseconds_of(run);
  } catch (const CublasError&) {
  } catch (const std::invalid_argument&) {
  }
  return std::nullopt;
}

}  // namespace troupe::cuda
