// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/runtime/refusals.hpp"

namespace troupe::simt {
namespace {

Refusal current;

}  // namespace

Refusals::Refusals(const Refusal& refusal) { current = refusal; }
Refusals::~Refusals() { current = {}; }
const Refusal& Refusals::now() { return current; }

}  // namespace troupe::simt
