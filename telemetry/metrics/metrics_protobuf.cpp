// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics/metrics_protobuf.hpp"

#include <prometheus/metric_family.h>

#include "telemetry/protobuf_writer.hpp"

namespace troupe {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

// MetricType of metrics.proto.
std::int32_t type_number(MetricType type) {
  switch (type) {
    case MetricType::Counter: return 0;
    case MetricType::Gauge: return 1;
    case MetricType::Summary: return 2;
    case MetricType::Untyped: return 3;
    case MetricType::Histogram: return 4;
  }
  return 3;
}

ProtobufWriter value_message(double value) {
  ProtobufWriter message;
  message.add_double(1, value);
  return message;
}

void add_native(ProtobufWriter& message, const NativeHistogram& native) {
  message.add_sint32(5, native.schema);
  message.add_double(6, native.zero_threshold);
  message.add_uint64(7, native.zero_count);
  for (const auto& span : native.spans) {
    ProtobufWriter part;
    part.add_sint32(1, span.offset);
    part.add_uint64(2, span.length);
    message.add_message(12, part);
  }
  message.add_packed_sint64(13, native.deltas);
}

ProtobufWriter histogram_message(const ClientMetric::Histogram& histogram, const NativeHistogram* native) {
  ProtobufWriter message;
  message.add_uint64(1, histogram.sample_count);
  message.add_double(2, histogram.sample_sum);
  for (const auto& bucket : histogram.bucket) {
    ProtobufWriter part;
    part.add_uint64(1, bucket.cumulative_count);
    part.add_double(2, bucket.upper_bound);
    message.add_message(3, part);
  }
  if (native != nullptr) add_native(message, *native);
  return message;
}

ProtobufWriter metric_message(const ClientMetric& metric, MetricType type, const NativeHistogram* native) {
  ProtobufWriter message;
  for (const auto& label : metric.label) {
    ProtobufWriter pair;
    pair.add_string(1, label.name);
    pair.add_string(2, label.value);
    message.add_message(1, pair);
  }
  switch (type) {
    case MetricType::Counter: message.add_message(3, value_message(metric.counter.value)); break;
    case MetricType::Gauge: message.add_message(2, value_message(metric.gauge.value)); break;
    case MetricType::Histogram: message.add_message(7, histogram_message(metric.histogram, native)); break;
    case MetricType::Untyped:
    case MetricType::Summary: break;  // we have none
  }
  return message;
}

}  // namespace

std::string protobuf_of(const CollectedMetrics& metrics) {
  std::string out;
  for (const auto& family : metrics.families) {
    const auto native = metrics.native.find(family.name);
    ProtobufWriter message;
    message.add_string(1, family.name);
    message.add_string(2, family.help);
    message.add_int32(3, type_number(family.type));
    for (const auto& metric : family.metric)
      message.add_message(
          4, metric_message(metric, family.type, native == metrics.native.end() ? nullptr : &native->second));
    message.append_delimited_to(out);
  }
  return out;
}

}  // namespace troupe
