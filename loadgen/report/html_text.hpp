// SPDX-License-Identifier: Apache-2.0
// Texts and numbers as a page of HTML shows them. Everything that comes from
// settings, files or servers goes through html_text on its way out.
#pragma once

#include <string>
#include <string_view>

namespace troupe::loadgen {

// Safe between tags and in quoted attributes, in HTML and SVG. Control
// characters other than tab and line feed become U+FFFD.
std::string html_text(std::string_view text);

// Four significant digits, thousands grouped: "0.01234", "12.34", "12,345";
// "–" for what is no number.
std::string rounded_text(double value);
// "870 µs", "12.3 ms", "1.23 s"; "0" for zero.
std::string duration_text(double seconds);
std::string percent_text(double share);  // "12.3 %"

}  // namespace troupe::loadgen
