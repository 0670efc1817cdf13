// SPDX-License-Identifier: Apache-2.0
// Limits of a tenant as the keys' file spells them: "max_requests=4 tokens_per_minute=60000".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/admitting/tenant_limits.hpp"

namespace troupe {

// A known limit's name and "=" are its beginning.
bool is_tenant_limit(std::string_view word);

// Throws std::runtime_error that names the limit; a word that is none is not repeated, because
// it may be a part of a key.
TenantLimits parse_tenant_limits(const std::vector<std::string>& words);

}  // namespace troupe
