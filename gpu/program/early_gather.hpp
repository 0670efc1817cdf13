// SPDX-License-Identifier: Apache-2.0
// Moves GatherRows forward. Behind the last operator that reads other rows than its own, tokens
// that are not sampled are of no use: of a prompt's last layer only the keys and values are wanted. Pure.
#pragma once

#include <vector>

#include "gpu/program/program.hpp"

namespace troupe {

// The program with its rows gathered as soon as what follows works row by row, so that the operators in
// between compute sampled rows alone, with the bits that they had: where rows do not depend on each other,
// which is not so of oneDNN's products. Unchanged if it does not end so, as with a mixture of experts in its
// last layer. A device that takes such programs plans its memory for them.
Program gathered_early(Program program);
std::vector<Program> gathered_early(std::vector<Program> programs);  // each

}  // namespace troupe
