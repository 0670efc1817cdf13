// SPDX-License-Identifier: Apache-2.0
#include "app/tenant_limits.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>

namespace troupe {
namespace {

struct KnownLimit {
  std::string_view name;
  std::uint64_t most;  // 0: it is a part, not a number
  void (*put)(TenantLimits&, double);
};

constexpr std::uint64_t kMostRequests = 1'000'000;
constexpr std::uint64_t kMostTokens = 1'000'000'000'000;  // exact in the meter's arithmetic

constexpr KnownLimit kKnown[] = {
    {"max_requests", kMostRequests,
     [](TenantLimits& limits, double number) { limits.max_requests = static_cast<std::uint32_t>(number); }},
    {"max_tokens", kMostTokens,
     [](TenantLimits& limits, double number) { limits.max_tokens = static_cast<std::uint64_t>(number); }},
    {"tokens_per_minute", kMostTokens,
     [](TenantLimits& limits, double number) {
       limits.tokens_per_minute = static_cast<std::uint64_t>(number);
     }},
    {"burst_tokens", kMostTokens,
     [](TenantLimits& limits, double number) { limits.burst_tokens = static_cast<std::uint64_t>(number); }},
    {"cache_share", 0, [](TenantLimits& limits, double part) { limits.cache_share = part; }},
};

std::string known_names() {
  std::string names;
  for (const KnownLimit& known : kKnown) names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

// Null: none.
const KnownLimit* find_limit(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  const auto* const found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                         [&](const KnownLimit& known) { return known.name == name; });
  return found == std::end(kKnown) || name.size() == word.size() ? nullptr : found;
}

const KnownLimit& limit_of(std::string_view word) {
  const KnownLimit* const found = find_limit(word);
  if (found == nullptr)
    throw std::runtime_error("expected limits as NAME=NUMBER of " + known_names() + ", got more");
  return *found;
}

double number_of(std::string_view word, const KnownLimit& known) {
  const std::string_view text = word.substr(known.name.size() + 1);
  const bool is_part = known.most == 0;
  double number = 0;
  const auto format = std::chars_format::fixed;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, format);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (is_part && !(is_number && number > 0 && number <= 1))
    throw std::runtime_error(std::string(known.name) + ": expected a part above 0 and at most 1");
  const bool is_whole = is_number && number == std::floor(number);
  if (!is_part && !(is_whole && number >= 1 && number <= static_cast<double>(known.most)))
    throw std::runtime_error(std::string(known.name) + ": expected a whole number from 1 to " +
                             std::to_string(known.most));
  return number;
}

}  // namespace

bool is_tenant_limit(std::string_view word) { return find_limit(word) != nullptr; }

TenantLimits parse_tenant_limits(const std::vector<std::string>& words) {
  TenantLimits limits;
  std::set<std::string_view> given;
  for (const std::string& word : words) {
    const KnownLimit& known = limit_of(word);
    if (!given.insert(known.name).second) throw std::runtime_error(std::string(known.name) + ": given twice");
    known.put(limits, number_of(word, known));
  }
  if (limits.burst_tokens > 0 && limits.tokens_per_minute == 0)
    throw std::runtime_error("burst_tokens: needs tokens_per_minute, by which they come again");
  return limits;
}

}  // namespace troupe
