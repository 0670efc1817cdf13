// SPDX-License-Identifier: Apache-2.0
#include "gpu/memory_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <stdexcept>

namespace troupe {
namespace {

std::uint64_t pages_of_one_sequence(const MemoryRequest& request) {
  return (std::uint64_t{request.context_length} + request.page_size - 1) / request.page_size;
}

// Sums and products that stay at the maximum where they would overflow.
std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}

std::string row(const std::string& name, std::uint64_t bytes, const std::string& note) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "  %-12s %12s  %s\n", name.c_str(), shown_bytes(bytes).c_str(),
                note.c_str());
  return line.data();
}

}  // namespace

MemoryPlan plan_memory(const MemoryRequest& request) {
  if (request.page_size == 0 || request.context_length == 0) {
    throw std::runtime_error("a memory plan needs a page size and a context length");
  }
  MemoryPlan plan{.request = request};
  plan.slots_bytes = times(request.slot_bytes, request.num_slots);
  std::uint64_t fixed = plan.slots_bytes;
  for (const std::uint64_t part : {request.weight_bytes, request.table_bytes, request.arena_bytes,
                                   request.workspace_bytes, request.graph_bytes})
    fixed = plus(fixed, part);
  const bool has_pages = request.page_bytes > 0;
  const std::uint64_t needed_pages = has_pages ? pages_of_one_sequence(request) : 0;
  const std::uint64_t needed = plus(fixed, times(needed_pages, request.page_bytes));
  if (needed > request.budget_bytes) {
    throw std::runtime_error("the model does not fit: " + shown_bytes(needed) + " needed (weights " +
                             shown_bytes(request.weight_bytes) + ", temporaries " +
                             shown_bytes(plus(request.arena_bytes, request.workspace_bytes)) +
                             (request.graph_bytes > 0 ? ", graphs " + shown_bytes(request.graph_bytes) : "") +
                             ", tables " + shown_bytes(plus(request.table_bytes, plan.slots_bytes)) +
                             (has_pages ? ", KV pages of one sequence of " +
                                              std::to_string(request.context_length) + " tokens " +
                                              shown_bytes(times(needed_pages, request.page_bytes))
                                        : "") +
                             "), " + shown_bytes(request.budget_bytes) + " allowed");
  }
  std::uint64_t pages = has_pages ? (request.budget_bytes - fixed) / request.page_bytes : 0;
  if (has_pages && request.max_pages > 0) {
    pages = std::min(pages, std::max<std::uint64_t>(request.max_pages, needed_pages));
  }
  // Page ids are 32-bit, the highest stays free for "no page".
  plan.num_pages = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(pages, std::numeric_limits<std::uint32_t>::max() - 1));
  plan.kv_bytes = plan.num_pages * request.page_bytes;
  plan.total_bytes = fixed + plan.kv_bytes;
  return plan;
}

std::string to_string(const MemoryPlan& plan) {
  const MemoryRequest& request = plan.request;
  const std::uint64_t tokens = std::uint64_t{plan.num_pages} * request.page_size;
  std::string table = "memory plan\n";
  table += row("weights", request.weight_bytes, "packed");
  if (request.table_bytes > 0) table += row("tables", request.table_bytes, "rotary positions");
  table += row("temporaries", request.arena_bytes, "of the largest batch");
  if (request.workspace_bytes > 0) table += row("workspaces", request.workspace_bytes, "of kernels");
  if (request.graph_bytes > 0) table += row("graphs", request.graph_bytes, "at most");
  if (request.page_bytes > 0) {
    table += row("slots", plan.slots_bytes, std::to_string(request.num_slots) + " sequences");
    table +=
        row("KV pages", plan.kv_bytes,
            std::to_string(plan.num_pages) + " of " + std::to_string(request.page_size) + " tokens and " +
                shown_bytes(request.page_bytes) + ": " + std::to_string(tokens) + " tokens");
  }
  if (request.page_bytes == 0 && plan.slots_bytes > 0) {
    table += row("state", plan.slots_bytes,
                 std::to_string(request.num_slots) + " rows of " + shown_bytes(request.slot_bytes));
  }
  table += row("total", plan.total_bytes, "of " + shown_bytes(request.budget_bytes) + " allowed");
  return table;
}

std::string shown_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

}  // namespace troupe
