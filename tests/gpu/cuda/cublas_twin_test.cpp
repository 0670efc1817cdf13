// SPDX-License-Identifier: Apache-2.0
// The twin of cuBLASLt refuses what the library's manual does not allow.
#include <cublasLt.h>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace {

// c[2, 3] (by columns) = a[8, 2]ᵗ · b[8, 3]
struct Call {
  Call() {
    REQUIRE(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    set_types(CUDA_R_32F, CUDA_R_32F);
    describe(CUBLAS_COMPUTE_32F);
  }
  ~Call() { cublasLtDestroy(handle); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void describe(cublasComputeType_t type) {
    cublasLtMatmulDescInit(&operation, type, CUDA_R_32F);
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  }
  void set_types(cudaDataType_t factors, cudaDataType_t output) {
    cublasLtMatrixLayoutInit(&a, factors, 8, 2, 8);
    cublasLtMatrixLayoutInit(&b, factors, 8, 3, 8);
    cublasLtMatrixLayoutInit(&c, output, 2, 3, 2);
  }
  template <typename Value>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    return cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value));
  }

  cublasStatus_t run(const cublasLtMatmulAlgo_t* algorithm = nullptr, std::size_t workspace_bytes = 0) {
    return cublasLtMatmul(handle, &operation, &one, a_values.data(), &a, b_values.data(), &b, &beta,
                          c_values.data(), &c, c_values.data(), &c, algorithm, nullptr, workspace_bytes,
                          nullptr);
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t a{}, b{}, c{};
  float one = 1.0F, beta = 0.0F;
  std::vector<float> a_values = std::vector<float>(16, 1.0F), b_values = std::vector<float>(24, 2.0F),
                     c_values = std::vector<float>(6, 5.0F);
};

}  // namespace

TEST_CASE("cuBLASLt's twin: multiplies, and reads c only if beta is not zero") {
  Call call;
  call.c_values.assign(6, std::nanf(""));
  CHECK(call.run() == CUBLAS_STATUS_SUCCESS);
  CHECK(call.c_values == std::vector<float>(6, 16.0F));
  call.beta = 0.5F;
  CHECK(call.run() == CUBLAS_STATUS_SUCCESS);
  CHECK(call.c_values == std::vector<float>(6, 24.0F));
}

TEST_CASE("cuBLASLt's twin: tf32 keeps ten bits of the factors") {
  Call call;
  call.a_values.assign(16, 1.0F + 0x1p-12F);
  CHECK(call.run() == CUBLAS_STATUS_SUCCESS);
  CHECK(call.c_values[0] == 16.0F + 0x1p-8F);
  call.describe(CUBLAS_COMPUTE_32F_FAST_TF32);
  CHECK(call.run() == CUBLAS_STATUS_SUCCESS);
  CHECK(call.c_values[0] == 16.0F);
}

TEST_CASE("cuBLASLt's twin: refuses types that the manual does not pair") {
  Call call;
  call.set_types(CUDA_R_32F, CUDA_R_16BF);
  CHECK(call.run() == CUBLAS_STATUS_NOT_SUPPORTED);
  call.set_types(CUDA_R_16BF, CUDA_R_16F);
  CHECK(call.run() == CUBLAS_STATUS_NOT_SUPPORTED);
  call.set_types(CUDA_R_16BF, CUDA_R_32F);
  CHECK(call.run() == CUBLAS_STATUS_SUCCESS);
  call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(call.b_values.data()));
  CHECK(call.run() == CUBLAS_STATUS_SUCCESS);
  call.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);  // not that of c
  CHECK(call.run() == CUBLAS_STATUS_NOT_SUPPORTED);
  call.describe(CUBLAS_COMPUTE_32F_FAST_TF32);
  CHECK(call.run() == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("cuBLASLt's twin: refuses what has no meaning") {
  Call call;
  CHECK(call.run() == CUBLAS_STATUS_SUCCESS);
  CHECK(call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, char{4}) == CUBLAS_STATUS_INVALID_VALUE);
  call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  CHECK(call.run() == CUBLAS_STATUS_INVALID_VALUE);  // no bias is there
  call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  cublasLtMatrixLayoutInit(&call.b, CUDA_R_32F, 7, 3, 8);  // another depth
  CHECK(call.run() == CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatrixLayoutInit(&call.b, CUDA_R_32F, 8, 3, 7);  // columns overlap
  CHECK(call.run() == CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatrixLayoutInit(&call.b, CUDA_R_32F, 8, 0, 8);
  CHECK(call.run() == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("cuBLASLt's twin: algorithms that split the depth want a workspace and aligned rows") {
  Call call;
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulPreferenceInit(&preference);
  const std::uint64_t bytes = 1 << 20;
  cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                       sizeof(bytes));
  std::vector<cublasLtMatmulHeuristicResult_t> results(8);
  int count = 0;
  const auto ask = [&] {
    cublasLtMatmulAlgoGetHeuristic(call.handle, &call.operation, &call.a, &call.b, &call.c, &call.c,
                                   &preference, 8, results.data(), &count);
    return count;
  };
  CHECK(ask() == 1);  // rows of c are 8 bytes apart
  call.c_values.resize(12);
  cublasLtMatrixLayoutInit(&call.c, CUDA_R_32F, 2, 3, 4);
  CHECK(ask() == 2);  // three columns are no multiple of 4
  CHECK(results[1].workspaceSize == 2 * 6 * sizeof(float));
  CHECK(call.run(&results[1].algo, 0) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(call.run(&results[0].algo, 0) == CUBLAS_STATUS_SUCCESS);
}
