// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "tests/simt/cublas/cublas_gemm.hpp"
#include "tests/simt/runtime/refusals.hpp"
#include "tests/simt/runtime/runtime.hpp"

struct cublasLtContext {};

namespace {

using namespace troupe::simt;

struct Operation {
  cublasComputeType_t compute_type = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale_type = CUDA_R_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t bias_type = -1;  // the output's
  const void* bias = nullptr;
};

struct Preference {
  std::uint64_t max_workspace_bytes = 0;
  std::uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<std::uint32_t, 4> alignments = {256, 256, 256, 256};  // a, b, c, d
};

// The file of choices hands algorithms on from one process to the next.
struct Algorithm {
  std::uint64_t magic = kMagic;
  std::uint64_t parts = 1;
  static constexpr std::uint64_t kMagic = 0x74776963756C74;
};
constexpr std::array<std::uint64_t, 3> kParts = {1, 2, 4};

template <typename Value, typename Opaque>
void put(Opaque* opaque, const Value& value) {
  static_assert(sizeof(Value) <= sizeof(Opaque) && std::is_trivially_copyable_v<Value>);
  *opaque = {};
  std::memcpy(opaque, &value, sizeof(value));
}
template <typename Value, typename Opaque>
Value get(const Opaque* opaque) {
  Value value;
  std::memcpy(static_cast<void*>(&value), opaque, sizeof(value));
  return value;
}

template <typename Field>
cublasStatus_t assign(Field& field, const void* value, std::size_t size_bytes) {
  if (value == nullptr || size_bytes != sizeof(field)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, sizeof(field));
  return CUBLAS_STATUS_SUCCESS;
}

std::uint64_t size_of_type(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

// The manual's table of types for matrices by columns, rows of f32 scales: the
// output is of the factors' type or f32, and the bias is of the output's.
bool are_types_supported(const Operation& operation, const CublasGemm& gemm) {
  const cudaDataType factors = gemm.a.type, output = gemm.d.type;
  const bool is_known = factors == CUDA_R_32F || factors == CUDA_R_16F || factors == CUDA_R_16BF;
  const bool is_tf32 = operation.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  const bool has_bias = (operation.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  return is_known && gemm.b.type == factors && gemm.c.type == output &&
         (output == factors || output == CUDA_R_32F) && operation.scale_type == CUDA_R_32F &&
         (!is_tf32 || factors == CUDA_R_32F) &&
         (!has_bias || operation.bias_type == -1 || operation.bias_type == output);
}

bool is_layout_valid(const CublasMatrix& matrix) {
  return matrix.rows > 0 && matrix.cols > 0 && matrix.ld >= static_cast<std::int64_t>(matrix.rows);
}

// Of everything but pointers; fills the product in.
cublasStatus_t inspect(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                       const std::array<cublasLtMatrixLayout_t, 4>& layouts, CublasGemm& gemm) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (description == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  for (const auto* layout : layouts) {
    if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto operation = get<Operation>(description);
  gemm.a = get<CublasMatrix>(layouts[0]);
  gemm.b = get<CublasMatrix>(layouts[1]);
  gemm.c = get<CublasMatrix>(layouts[2]);
  gemm.d = get<CublasMatrix>(layouts[3]);
  for (const auto* matrix : {&gemm.a, &gemm.b, &gemm.c, &gemm.d}) {
    if (!is_layout_valid(*matrix)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  // The library can multiply the others as well; the worker has no use for them.
  if (operation.transpose_a != CUBLAS_OP_T || operation.transpose_b != CUBLAS_OP_N) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (gemm.a.rows != gemm.b.rows || gemm.a.cols != gemm.d.rows || gemm.b.cols != gemm.d.cols ||
      gemm.c.rows != gemm.d.rows || gemm.c.cols != gemm.d.cols) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!are_types_supported(operation, gemm)) return CUBLAS_STATUS_NOT_SUPPORTED;
  gemm.rounds_to_tf32 = operation.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  gemm.has_bias = (operation.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  gemm.has_gelu = (operation.epilogue & CUBLASLT_EPILOGUE_GELU) != 0;
  gemm.bias = operation.bias;
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t workspace_of(const CublasGemm& gemm, std::uint64_t parts) {
  return parts == 1 ? 0 : parts * gemm.d.rows * gemm.d.cols * sizeof(float);
}

// What an algorithm wants of distances between columns and of their number.
bool can_compute(const CublasGemm& gemm, std::uint64_t parts) {
  const auto fits = [parts](const CublasMatrix& matrix) {
    const auto distance = static_cast<std::uint64_t>(matrix.ld) * size_of_type(matrix.type);
    return parts == 1 || distance % 16 == 0;
  };
  const bool has_columns = parts < 4 || gemm.d.cols % 4 == 0;
  return has_columns && fits(gemm.a) && fits(gemm.b) && fits(gemm.d);
}
bool is_pointer_aligned(const void* pointer, cudaDataType type, std::uint64_t parts) {
  return reinterpret_cast<std::uintptr_t>(pointer) % (parts == 1 ? size_of_type(type) : 16) == 0;
}

cublasStatus_t inspect_algorithm(const cublasLtMatmulAlgo_t* opaque, const CublasGemm& gemm,
                                 std::uint64_t& parts) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const auto algorithm = get<Algorithm>(opaque);
  parts = algorithm.parts;
  if (algorithm.magic != Algorithm::kMagic ||
      std::find(kParts.begin(), kParts.end(), parts) == kParts.end()) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return can_compute(gemm, parts) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t inspect_pointers(const CublasGemm& gemm, const void* workspace, std::size_t workspace_bytes) {
  const bool reads_c = gemm.beta != 0.0F;
  if (gemm.a_values == nullptr || gemm.b_values == nullptr || gemm.d_values == nullptr ||
      (reads_c && gemm.c_values == nullptr) || (gemm.has_bias && gemm.bias == nullptr) ||
      workspace_bytes < workspace_of(gemm, gemm.parts) ||
      reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool are_aligned = is_pointer_aligned(gemm.a_values, gemm.a.type, gemm.parts) &&
                           is_pointer_aligned(gemm.b_values, gemm.b.type, gemm.parts) &&
                           is_pointer_aligned(gemm.d_values, gemm.d.type, gemm.parts) &&
                           (!reads_c || is_pointer_aligned(gemm.c_values, gemm.c.type, gemm.parts)) &&
                           (!gemm.has_bias || is_pointer_aligned(gemm.bias, gemm.d.type, gemm.parts));
  return are_aligned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = std::make_unique<cublasLtContext>().release();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const std::unique_ptr<cublasLtContext> owner(handle);
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return 130100; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR: return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type, std::uint64_t rows,
                                        std::uint64_t cols, std::int64_t ld) {
  put(layout, CublasMatrix{type, rows, cols, ld});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t size_bytes) {
  auto matrix = get<CublasMatrix>(layout);
  auto status = CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: status = assign(matrix.type, value, size_bytes); break;
    case CUBLASLT_MATRIX_LAYOUT_ROWS: status = assign(matrix.rows, value, size_bytes); break;
    case CUBLASLT_MATRIX_LAYOUT_COLS: status = assign(matrix.cols, value, size_bytes); break;
    case CUBLASLT_MATRIX_LAYOUT_LD: status = assign(matrix.ld, value, size_bytes); break;
  }
  put(layout, matrix);
  return status;
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t operation, cublasComputeType_t compute_type,
                                      cudaDataType_t scale_type) {
  put(operation, Operation{.compute_type = compute_type, .scale_type = scale_type});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t size_bytes) {
  auto operation = get<Operation>(description);
  auto status = CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: status = assign(operation.transpose_a, value, size_bytes); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: status = assign(operation.transpose_b, value, size_bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: status = assign(operation.epilogue, value, size_bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: status = assign(operation.bias, value, size_bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: status = assign(operation.bias_type, value, size_bytes); break;
  }
  put(description, operation);
  return status;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
  put(preference, Preference{});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t opaque,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t size_bytes) {
  auto preference = get<Preference>(opaque);
  auto status = CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      status = assign(preference.max_workspace_bytes, value, size_bytes);
      break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      status = assign(preference.reduction_mask, value, size_bytes);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      status = assign(preference.alignments.at(attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES), value,
                      size_bytes);
      break;
  }
  put(opaque, preference);
  return status;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t opaque, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  CublasGemm gemm;
  const cublasStatus_t status = inspect(handle, operation, {a, b, c, d}, gemm);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (opaque == nullptr || most <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  const auto preference = get<Preference>(opaque);
  const auto alignment = *std::min_element(preference.alignments.begin(), preference.alignments.end());
  *count = 0;
  if (troupe::simt::Refusals::now().of_heuristics) return CUBLAS_STATUS_SUCCESS;
  for (const std::uint64_t parts : kParts) {
    const bool is_split = parts > 1;
    if (*count == most || !can_compute(gemm, parts) ||
        workspace_of(gemm, parts) > preference.max_workspace_bytes ||
        (is_split &&
         (alignment < 16 || (preference.reduction_mask & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0))) {
      continue;
    }
    auto& result = results[(*count)++];
    result = {};
    put(&result.algo, Algorithm{.parts = parts});
    result.workspaceSize = workspace_of(gemm, parts);
    result.wavesCount = 1.0F;
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  CublasGemm gemm;
  cublasStatus_t status = inspect(handle, operation, {a, b, c, d}, gemm);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = inspect_algorithm(algorithm, gemm, gemm.parts);
  }
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = workspace_of(gemm, gemm.parts);
  result->wavesCount = 1.0F;
  result->state = CUBLAS_STATUS_SUCCESS;
  return status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a_values, cublasLtMatrixLayout_t a, const void* b_values,
                              cublasLtMatrixLayout_t b, const void* beta, const void* c_values,
                              cublasLtMatrixLayout_t c, void* d_values, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  CublasGemm gemm;
  cublasStatus_t status = inspect(handle, operation, {a, b, c, d}, gemm);
  if (status == CUBLAS_STATUS_SUCCESS && algorithm != nullptr) {  // else the first
    status = inspect_algorithm(algorithm, gemm, gemm.parts);
  }
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  gemm.alpha = *static_cast<const float*>(alpha);
  gemm.beta = *static_cast<const float*>(beta);
  gemm.a_values = a_values;
  gemm.b_values = b_values;
  gemm.c_values = c_values;
  gemm.d_values = d_values;
  gemm.workspace = static_cast<float*>(workspace);
  status = inspect_pointers(gemm, workspace, workspace_bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  // Each algorithm is a kernel.
  static constexpr std::array<char, 16> kCode{};
  const void* code = &kCode.at(static_cast<std::size_t>(gemm.parts) % kCode.size());
  return enqueue(
             stream, [gemm] { multiply(gemm); }, code) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
