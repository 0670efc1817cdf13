// SPDX-License-Identifier: Apache-2.0
// Fields by which an answer says how much of its limits a tenant has left, with the names and
// the notation of OpenAI's.
#pragma once

#include <chrono>
#include <string>

#include "actors/request/tenant_account.hpp"

namespace troupe {

// Whole lines; empty: the tenant has no such limits.
std::string limit_fields(const TenantAccount::Standing& standing);

// "1h2m3s", "6m0s", "1.5s", "20ms": rounded up to milliseconds.
std::string duration_text(std::chrono::nanoseconds duration);

}  // namespace troupe
