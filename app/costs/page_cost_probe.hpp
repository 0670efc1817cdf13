// SPDX-License-Identifier: Apache-2.0
// Measures what a KV page costs on the device that will serve: to compute it, by
// what is in front of it (Pensieve, §3.4.3.1: profiled at contexts that are
// powers of two), and to load it from the host. A short look before serving, not
// a profile (app/costs/device_probe.hpp): the least of a few times each, of which the first batch's is
// none unless it takes over a second.
#pragma once

#include <chrono>

#include "app/loading/model_loading.hpp"
#include "policy/pages/restore_choice.hpp"

namespace troupe {

struct MeasuredPageCosts {
  RestoreCosts costs;  // nanoseconds; nothing of the disk
  // Times came again when they were taken again. If not, the machine was busy
  // with other things: good enough for now, not for all starts to come.
  bool is_steady = true;
};

// Ends about when the time is over; if not steady, after twice the time, with a
// large model after twenty times; but not before a page was computed at both ends
// of the context, however long that takes. Makes a device of its own, and leaves contents of no sequence
// in the first of the host tier's pages. Throws std::runtime_error if the device
// fails.
MeasuredPageCosts measure_page_costs(const LoadedModel& model, std::chrono::nanoseconds time_limit);

}  // namespace troupe
