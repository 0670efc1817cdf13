// SPDX-License-Identifier: Apache-2.0
// A Llama of random weights that is built in a moment, and batches for it.
#pragma once

#include <memory>

#include "gpu/host/host_device.hpp"
#include "gpu/host/host_model.hpp"
#include "gpu/program_cache.hpp"
#include "gpu/random_model.hpp"

namespace troupe {

// Two layers, 100 tokens of vocabulary, 256 of context.
ModelConfig tiny_llama();
// For the host device: 8 slots, 64 pages, batches of at most 64 tokens.
const std::shared_ptr<const HostModel>& tiny_model();
ProgramCache make_programs();

// One sequence in slot 0 with the prompt 3, 4, 5 and two pages.
Batch good_batch();
BatchResult run(HostDevice& device, ProgramCache& programs, const Batch& batch);

}  // namespace troupe
