// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/span_pipeline.hpp"

#include <string>
#include <utility>
#include <variant>

namespace troupe {

std::size_t count_spans(const std::vector<SpanTree>& trees) {
  std::size_t count = 0;
  for (const auto& tree : trees) count += tree->size();
  return count;
}

namespace {

std::size_t num_bytes(const AttributeValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text->size();
  std::size_t bytes = 0;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    for (const auto& text : *list) bytes += sizeof text + text.size();
  return bytes;
}

std::size_t num_bytes(const std::vector<SpanAttribute>& attributes) {
  std::size_t bytes = attributes.size() * sizeof(SpanAttribute);
  for (const auto& attribute : attributes) bytes += num_bytes(attribute.value);
  return bytes;
}

}  // namespace

std::size_t count_bytes(const std::vector<Span>& spans) {
  std::size_t bytes = spans.size() * sizeof(Span);
  for (const auto& span : spans) {
    bytes += span.name.size() + span.tracestate.size() + span.status_message.size();
    bytes += num_bytes(span.attributes) + span.links.size() * sizeof(TraceContext);
    for (const auto& event : span.events) bytes += sizeof event + num_bytes(event.attributes);
  }
  return bytes;
}

SpanPipeline::SpanPipeline(std::unique_ptr<SpanExporter> exporter, SpanPipelineOptions options,
                           SpanCounters counters)
    : exporter_(std::move(exporter)), options_(options), counters_(counters), thread_([this] { run(); }) {}

SpanPipeline::~SpanPipeline() { stop(std::chrono::steady_clock::now()); }

void SpanPipeline::offer(SpanTree tree) {
  const std::size_t num_spans = tree->size();
  const std::size_t size_bytes = count_bytes(*tree);
  bool is_batch_full = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return counters_.dropped_shutdown.add(static_cast<double>(num_spans));
    if (num_queued_spans_ + num_spans > options_.max_queued_spans ||
        num_queued_bytes_ + size_bytes > options_.max_queued_bytes)
      return counters_.dropped_queue_full.add(static_cast<double>(num_spans));
    const bool was_full = has_full_batch();
    num_queued_spans_ += num_spans;
    num_queued_bytes_ += size_bytes;
    queue_.push_back({.spans = std::move(tree), .num_bytes = size_bytes});
    is_batch_full = !was_full && has_full_batch();
  }
  if (is_batch_full) has_work_.notify_one();
}

void SpanPipeline::begin_stop(std::chrono::steady_clock::time_point deadline) {
  deadline_.set(deadline);
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  has_work_.notify_one();
}

void SpanPipeline::stop(std::chrono::steady_clock::time_point deadline) {
  if (!thread_.joinable()) return;
  begin_stop(deadline);
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
  const auto is_due = [&] { return is_stopping_ || has_full_batch(); };
  while (!is_due()) {
    has_work_.wait_for(lock, options_.flush_interval, is_due);
    if (!queue_.empty()) break;
  }
  std::vector<SpanTree> batch;
  std::size_t num_spans = 0, size_bytes = 0;
  while (!queue_.empty()) {
    QueuedTree& next = queue_.front();
    const bool fits = num_spans + next.spans->size() <= options_.max_batch_spans &&
                      size_bytes + next.num_bytes <= options_.max_batch_bytes;
    if (!fits && !batch.empty()) break;
    num_spans += next.spans->size();
    size_bytes += next.num_bytes;
    batch.push_back(std::move(next.spans));
    queue_.pop_front();
  }
  num_queued_spans_ -= num_spans;
  num_queued_bytes_ -= size_bytes;
  return batch;
}

bool SpanPipeline::has_full_batch() const {
  return num_queued_spans_ >= options_.max_batch_spans || num_queued_bytes_ >= options_.max_batch_bytes;
}

void SpanPipeline::drop_rest() {
  const std::lock_guard lock(mutex_);
  counters_.dropped_shutdown.add(static_cast<double>(num_queued_spans_));
  queue_.clear();
  num_queued_spans_ = 0;
  num_queued_bytes_ = 0;
}

}  // namespace troupe
