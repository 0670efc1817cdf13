// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/html_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace troupe::loadgen {
namespace {

std::string fixed_text(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

// Decimals that leave `digits` significant ones.
int decimals_for(double value, int digits) {
  if (value == 0) return 0;
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return std::clamp(digits - 1 - magnitude, 0, 9);
}

std::string trimmed(double value, int digits) {
  auto text = fixed_text(value, decimals_for(value, digits));
  if (text.find('.') == std::string::npos) return text;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string grouped(std::string digits) {
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t end = digits.size(); end > first + 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F)
      out += "\xEF\xBF\xBD";
    else
      out += c;
  }
  return out;
}

std::string rounded_text(double value) {
  if (!std::isfinite(value)) return "–";
  if (std::abs(value) >= 9999.5) return grouped(fixed_text(value, 0));
  return trimmed(value, 4);
}

std::string duration_text(double seconds) {
  if (seconds == HUGE_VAL) return "∞";
  if (!std::isfinite(seconds)) return "–";
  if (seconds == 0) return "0";
  if (std::abs(seconds) < 1e-3) return trimmed(seconds * 1e6, 3) + " µs";
  if (std::abs(seconds) < 1) return trimmed(seconds * 1e3, 3) + " ms";
  return trimmed(seconds, 3) + " s";
}

std::string percent_text(double share) { return std::isfinite(share) ? trimmed(share * 100, 3) + " %" : "–"; }

}  // namespace troupe::loadgen
