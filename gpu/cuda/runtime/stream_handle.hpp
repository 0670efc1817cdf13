// SPDX-License-Identifier: Apache-2.0
// A CUDA stream where no CUDA header is seen: the same type as cudaStream_t.
#pragma once

struct CUstream_st;

namespace troupe::cuda {
using StreamHandle = CUstream_st*;
}  // namespace troupe::cuda
