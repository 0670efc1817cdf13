// SPDX-License-Identifier: Apache-2.0
// One wording for settings out of range: what was expected and what came.
#pragma once

#include <string>

namespace troupe::loadgen {

// Throws std::runtime_error "KEY: expected EXPECTED, got GOT".
[[noreturn]] void refuse_setting(const std::string& key, const std::string& expected, const std::string& got);

// These accept finite numbers only.
void expect_above_zero(const std::string& key, double value);
void expect_at_least(const std::string& key, double minimum, double value);

// As people write it: "4", "0.25", "inf".
std::string number_text(double value);

}  // namespace troupe::loadgen
