// SPDX-License-Identifier: Apache-2.0
// The part of a trace that is wanted: a window of its time, at most so many
// conversations, with lengths scaled and made to fit a model's context.
#pragma once

#include <memory>
#include <string>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

// Opens settings.file. Times count from the window's begin. Throws
// std::runtime_error, also from next() if the window holds nothing at all.
std::unique_ptr<ConversationSource> open_trace(const TraceSettings& settings);

// The same with a reader that is there already.
std::unique_ptr<ConversationSource> select_from_trace(std::unique_ptr<ConversationSource> trace,
                                                      const TraceSettings& settings);

}  // namespace troupe::loadgen
