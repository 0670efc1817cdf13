// SPDX-License-Identifier: Apache-2.0
// The certificate that the options name, at the start and when it is renewed.
#pragma once

#include <memory>

#include "app/options/options.hpp"
#include "http/tls/tls_identity.hpp"

namespace troupe {

// Null if they name none. Warns of one that is not good now. Throws std::runtime_error
// that names what is wrong: a file, or that one of the two options is missing.
std::shared_ptr<TlsIdentity> load_tls_identity(const Options& options);

// Reads its files anew, and logs what they hold. Throws std::runtime_error if they can't be
// used: then nothing changes.
void reload_tls_identity(TlsIdentity& identity);

}  // namespace troupe
