// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/server/server_sampler.hpp"

#include "loadgen/client/http/http_exchange.hpp"

namespace troupe::loadgen {

using std::chrono::steady_clock;

ServerSampler::ServerSampler(ServerAddress server, std::string api_key, std::chrono::milliseconds period)
    : server_(std::move(server)), api_key_(std::move(api_key)), period_(period), thread_([this] { run(); }) {}

ServerSampler::~ServerSampler() { stop(steady_clock::now()); }

std::vector<ServerSample> ServerSampler::stop(Time begin) {
  {
    const std::lock_guard lock(mutex_);
    should_stop_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::vector<ServerSample> samples;
  for (auto& [time, sample] : samples_) {
    if (time < begin) continue;
    sample.time = time - begin;
    samples.push_back(sample);
  }
  return samples;
}

void ServerSampler::run() {
  auto next = steady_clock::now();
  do {
    take_sample();
    next += period_;
  } while (wait_until(next));
}

bool ServerSampler::wait_until(Time time) {
  std::unique_lock lock(mutex_);
  return !stopping_.wait_until(lock, time, [this] { return should_stop_; });
}

// A server that does not answer is the run's to report; here a gap is enough.
void ServerSampler::take_sample() {
  try {
    const auto time = steady_clock::now();
    const auto reply = http_exchange(
        server_, {.path = "/metrics", .api_key = api_key_, .json = {}, .timeout = std::chrono::seconds(2)});
    if (reply.status == 200 && is_known_server(reply.body))
      samples_.emplace_back(time, read_sample(reply.body, batches_));
  } catch (const ServerUnreachable&) {
  }
}

}  // namespace troupe::loadgen
