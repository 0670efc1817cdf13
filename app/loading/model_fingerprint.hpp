// SPDX-License-Identifier: Apache-2.0
// Numbers that no two models share by which things are kept that were made of one.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe {

// All that the bytes of a KV page depend on besides its tokens: the model's files, how it is computed, the
// machine's instructions, and this program, whose arithmetic may differ from the one before it.
//
// computation: compute type, device and the like. Throws std::runtime_error that
// names a file that can't be read. Takes as long as reading the weights, unless the directory (a descriptor;
// -1: none) keeps digests of the files as they are now from an earlier call.
std::array<std::uint64_t, 2> model_fingerprint(const std::filesystem::path& model,
                                               const std::string& computation, int directory = -1);

// All but the program: what was learnt of a model's states stays with the next version. So, too.
std::uint64_t state_fingerprint(const std::filesystem::path& model, const std::string& computation,
                                int directory = -1);

}  // namespace troupe
