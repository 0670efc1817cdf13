// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/span_pipeline.hpp"

#include <utility>

namespace troupe {

std::size_t count_spans(const std::vector<SpanTree>& trees) {
  std::size_t count = 0;
  for (const auto& tree : trees) count += tree->size();
  return count;
}

SpanPipeline::SpanPipeline(std::unique_ptr<SpanExporter> exporter, SpanPipelineOptions options,
                           SpanCounters counters)
    : exporter_(std::move(exporter)), options_(options), counters_(counters), thread_([this] { run(); }) {}

SpanPipeline::~SpanPipeline() { stop(std::chrono::milliseconds(0)); }

void SpanPipeline::offer(SpanTree tree) {
  const std::size_t num_spans = tree->size();
  bool is_batch_full = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return counters_.dropped_shutdown.add(static_cast<double>(num_spans));
    if (num_queued_spans_ + num_spans > options_.max_queued_spans)
      return counters_.dropped_queue_full.add(static_cast<double>(num_spans));
    const bool was_full = num_queued_spans_ >= options_.max_batch_spans;
    num_queued_spans_ += num_spans;
    queue_.push_back(std::move(tree));
    is_batch_full = !was_full && num_queued_spans_ >= options_.max_batch_spans;
  }
  if (is_batch_full) has_work_.notify_one();
}

void SpanPipeline::stop(std::chrono::milliseconds deadline) {
  if (!thread_.joinable()) return;
  deadline_.set(std::chrono::steady_clock::now() + deadline);
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  has_work_.notify_one();
  thread_.join();
}

void SpanPipeline::run() {
  for (auto batch = take_batch(); !batch.empty(); batch = take_batch()) {
    const std::size_t offered = count_spans(batch);
    const std::size_t arrived = exporter_->send(batch, deadline_);
    counters_.exported.add(static_cast<double>(arrived));
    counters_.dropped_export_failed.add(static_cast<double>(offered - arrived));
    if (std::chrono::steady_clock::now() >= deadline_.get()) drop_rest();
  }
}

std::vector<SpanTree> SpanPipeline::take_batch() {
  std::unique_lock lock(mutex_);
  // Under little load a batch is what one interval brings.
  const auto is_due = [&] { return is_stopping_ || num_queued_spans_ >= options_.max_batch_spans; };
  while (!is_due()) {
    has_work_.wait_for(lock, options_.flush_interval, is_due);
    if (!queue_.empty()) break;
  }
  std::vector<SpanTree> batch;
  std::size_t num_spans = 0;
  while (!queue_.empty() &&
         (batch.empty() || num_spans + queue_.front()->size() <= options_.max_batch_spans)) {
    num_spans += queue_.front()->size();
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  num_queued_spans_ -= num_spans;
  return batch;
}

void SpanPipeline::drop_rest() {
  const std::lock_guard lock(mutex_);
  counters_.dropped_shutdown.add(static_cast<double>(num_queued_spans_));
  queue_.clear();
  num_queued_spans_ = 0;
}

}  // namespace troupe
