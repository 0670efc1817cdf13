// SPDX-License-Identifier: Apache-2.0
// A Llama of random weights that is built in a moment, and batches for it.
#pragma once

#include <memory>

#include "gpu/cpu/cpu_device.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/program/program_cache.hpp"

namespace troupe {

// Two layers, 100 tokens of vocabulary, 256 of context.
ModelConfig tiny_llama();
// For the CPU device: 8 slots, 64 pages, batches of at most 64 tokens.
const std::shared_ptr<const CpuModel>& tiny_model();
ProgramCache make_programs();

// One sequence in slot 0 with the prompt 3, 4, 5 and two pages.
Batch good_batch();
BatchResult run(CpuDevice& device, ProgramCache& programs, const Batch& batch);

}  // namespace troupe
