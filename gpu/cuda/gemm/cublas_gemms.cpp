// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/cublas_gemms.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>

namespace troupe::cuda {
namespace {

// Of a, weight, bias and c; cuBLASLt would assume 256 bytes.
constexpr std::uint32_t kPointerAlignment = 16;
constexpr std::uintptr_t kWorkspaceAlignment = 256;

bool is_aligned(const void* pointer, std::uintptr_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

void check(cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CublasError("cuBLASLt: " + what + ": " + cublasLtGetStatusName(status));
}

cudaDataType_t cuda_type_of(DataType type) {
  switch (type) {
    case DataType::kF32: return CUDA_R_32F;
    case DataType::kF16: return CUDA_R_16F;
    case DataType::kBF16: return CUDA_R_16BF;
    case DataType::kI32: break;
  }
  throw std::invalid_argument("products are of f32, f16 or bf16, not of " + std::string(name_of(type)));
}

cublasLtEpilogue_t epilogue_of(const GemmShape& shape) {
  if (shape.activation == GemmActivation::kGelu) {
    return shape.has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  }
  return shape.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

void check_shape(const GemmShape& shape) {
  const auto refuse = [&shape](const char* why) {
    throw std::invalid_argument("a product of " + to_string(shape) + ": " + why);
  };
  if (shape.depth == 0) refuse("there is nothing to add up");
  if (shape.c_type != shape.type && shape.c_type != DataType::kF32) {
    refuse("what is computed is of the type of the factors or f32");
  }
  // The library adds before it activates.
  if (shape.adds && shape.activation != GemmActivation::kNone) {
    refuse("an activation cannot be added");
  }
}

void check_pointers(const GemmShape& shape, const GemmPointers& pointers) {
  const void* const all[] = {pointers.a, pointers.weight, pointers.c,
                             shape.has_bias ? pointers.bias : pointers.c};
  for (const void* const pointer : all) {
    if (pointer == nullptr || !is_aligned(pointer, kPointerAlignment)) {
      throw std::invalid_argument("a product of " + to_string(shape) +
                                  " wants all its matrices at multiples of 16 bytes");
    }
  }
}

template <typename Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)),
        "a description of a product");
}
template <typename Value>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)), "a preference");
}
void set_columns(cublasLtMatrixLayoutOpaque_t& layout, std::uint64_t columns) {
  check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof(columns)),
        "a layout");
}
cublasLtMatrixLayoutOpaque_t layout_of(DataType type, std::uint64_t rows, std::uint64_t columns) {
  cublasLtMatrixLayoutOpaque_t layout;
  check(cublasLtMatrixLayoutInit(&layout, cuda_type_of(type), rows, columns, static_cast<std::int64_t>(rows)),
        "a layout");
  return layout;
}

// To cuBLASLt, whose matrices are by columns, c is [outputs, tokens], the weight
// [depth, outputs] and has to be transposed, and a is [depth, tokens].
struct Descriptors {
  explicit Descriptors(const GemmShape& shape)
      : weight(layout_of(shape.type, shape.depth, shape.num_outputs)),
        a(layout_of(shape.type, shape.depth, shape.num_tokens)),
        c(layout_of(shape.c_type, shape.num_outputs, shape.num_tokens)) {
    const bool is_rounded = shape.type == DataType::kF32 && !shape.is_exact;
    check(cublasLtMatmulDescInit(&operation, is_rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
          "a description of a product");
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(shape));
    if (!shape.has_bias) return;
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type_of(shape.c_type));
    // The heuristics only ask how it is aligned.
    set_bias(reinterpret_cast<const void*>(std::uintptr_t{kPointerAlignment}));
  }

  void set_bias(const void* bias) { set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }
  void set_tokens(std::uint32_t num_tokens) {
    set_columns(a, num_tokens);
    set_columns(c, num_tokens);
  }

  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t weight, a, c;
};

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(GemmChoice::algorithm));
cublasLtMatmulAlgo_t algorithm_of(const GemmChoice& choice) {
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, choice.algorithm.data(), sizeof(algorithm));
  return algorithm;
}

}  // namespace

class CublasGemms::Implementation {
 public:
  Implementation(void* workspace, std::size_t workspace_bytes)
      : workspace_(workspace), workspace_bytes_(workspace_bytes) {
    if (!is_aligned(workspace, kWorkspaceAlignment)) {
      throw std::invalid_argument("cuBLASLt wants its workspace at a multiple of 256 bytes");
    }
    check(cublasLtCreate(&handle_), "create");
  }
  ~Implementation() { cublasLtDestroy(handle_); }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  std::vector<GemmChoice> candidates(const GemmShape& shape, std::size_t most) {
    return heuristics(bin(shape), gemm_bin(shape.num_tokens), most);
  }

  bool use(const GemmShape& shape, const GemmChoice& choice) {
    if (choice.kernel != GemmKernel::kCublasLt || choice.workspace_bytes > workspace_bytes_) {
      return false;
    }
    Bin& found = bin(shape);
    found.descriptors.set_tokens(gemm_bin(shape.num_tokens));
    Descriptors& d = found.descriptors;
    const cublasLtMatmulAlgo_t algorithm = algorithm_of(choice);
    cublasLtMatmulHeuristicResult_t result{};
    if (cublasLtMatmulAlgoCheck(handle_, &d.operation, &d.weight, &d.a, &d.c, &d.c, &algorithm, &result) !=
            CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > workspace_bytes_) {
      return false;
    }
    found.choice = choice;
    found.exceptions.clear();
    return true;
  }

  void run(const GemmShape& shape, const GemmPointers& pointers, cudaStream_t stream) {
    Bin& found = bin(shape);
    const std::uint32_t tokens = shape.num_tokens, largest = gemm_bin(tokens);
    const auto exception = found.exceptions.find(tokens);
    if (exception != found.exceptions.end()) {
      check(start(exception->second, found, shape, pointers, stream), to_string(shape));
      return;
    }
    if (!found.choice) found.choice = first(found, shape, largest);
    const cublasStatus_t status = start(*found.choice, found, shape, pointers, stream);
    if (tokens == largest || !is_refusal(status)) return check(status, to_string(shape));
    // What computes the bin's largest count need not be able to compute this one.
    const GemmChoice other = first(found, shape, tokens);
    check(start(other, found, shape, pointers, stream), to_string(shape));
    found.exceptions.emplace(tokens, other);
  }

  void run_with(const GemmChoice& choice, const GemmShape& shape, const GemmPointers& pointers,
                cudaStream_t stream) {
    if (choice.kernel != GemmKernel::kCublasLt) {
      throw std::invalid_argument("a choice that is not cuBLASLt's was given to it");
    }
    check(start(choice, bin(shape), shape, pointers, stream), to_string(shape));
  }

 private:
  struct Bin {
    explicit Bin(const GemmShape& shape) : descriptors(shape) {}
    Descriptors descriptors;
    std::optional<GemmChoice> choice;
    std::map<std::uint32_t, GemmChoice> exceptions;  // by the number of tokens
  };

  static bool is_refusal(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  }

  Bin& bin(const GemmShape& shape) {
    const GemmShape key = bin_of(shape);
    const auto found = bins_.find(key);
    if (found != bins_.end()) return found->second;
    check_shape(shape);
    return bins_.try_emplace(key, key).first->second;
  }

  GemmChoice first(Bin& bin, const GemmShape& shape, std::uint32_t num_tokens) {
    const auto found = heuristics(bin, num_tokens, 1);
    if (found.empty()) {
      throw CublasError("cuBLASLt knows no way to compute a product of " + to_string(shape));
    }
    return found.front();
  }

  std::vector<GemmChoice> heuristics(Bin& bin, std::uint32_t num_tokens, std::size_t most) {
    cublasLtMatmulPreferenceOpaque_t preference;
    check(cublasLtMatmulPreferenceInit(&preference), "a preference");
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes_});
    // No partial sums in the type of c: bf16 would round each of them.
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(preference, attribute, kPointerAlignment);
    }
    std::vector<cublasLtMatmulHeuristicResult_t> results(most);
    int count = 0;
    Descriptors& d = bin.descriptors;
    d.set_tokens(num_tokens);
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, &d.operation, &d.weight, &d.a, &d.c, &d.c, &preference,
                                       static_cast<int>(most), results.data(), &count);
    if (is_refusal(status)) return {};
    check(status, "the heuristics");
    std::vector<GemmChoice> choices;
    for (const auto& result : std::span(results).first(static_cast<std::size_t>(count))) {
      if (result.state != CUBLAS_STATUS_SUCCESS) continue;
      GemmChoice& choice = choices.emplace_back();
      std::memcpy(choice.algorithm.data(), &result.algo, sizeof(result.algo));
      choice.workspace_bytes = result.workspaceSize;
    }
    return choices;
  }

  cublasStatus_t start(const GemmChoice& choice, Bin& bin, const GemmShape& shape,
                       const GemmPointers& pointers, cudaStream_t stream) {
    check_pointers(shape, pointers);
    Descriptors& d = bin.descriptors;
    d.set_tokens(shape.num_tokens);
    if (shape.has_bias) d.set_bias(pointers.bias);
    const cublasLtMatmulAlgo_t algorithm = algorithm_of(choice);
    const float one = 1.0F, beta = shape.adds ? 1.0F : 0.0F;
    return cublasLtMatmul(handle_, &d.operation, &one, pointers.weight, &d.weight, pointers.a, &d.a, &beta,
                          pointers.c, &d.c, pointers.c, &d.c, &algorithm, workspace_, workspace_bytes_,
                          stream);
  }

  void* workspace_;
  std::size_t workspace_bytes_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<GemmShape, Bin> bins_;
};

CublasGemms::CublasGemms(void* workspace, std::size_t workspace_bytes)
    : implementation_(std::make_unique<Implementation>(workspace, workspace_bytes)) {}
CublasGemms::~CublasGemms() = default;

std::size_t CublasGemms::version() { return cublasLtGetVersion(); }

std::vector<GemmChoice> CublasGemms::candidates(const GemmShape& shape, std::size_t most) {
  if (shape.num_outputs == 0 || most == 0) return {};
  return implementation_->candidates(shape, most);
}

bool CublasGemms::use(const GemmShape& shape, const GemmChoice& choice) {
  if (shape.num_outputs == 0) return false;
  try {
    return implementation_->use(shape, choice);
  } catch (const std::invalid_argument&) {
    return false;
  }
}

void CublasGemms::run(const GemmShape& shape, const GemmPointers& pointers, StreamHandle stream) {
  if (shape.num_tokens == 0 || shape.num_outputs == 0) return;
  implementation_->run(shape, pointers, stream);
}

void CublasGemms::run_with(const GemmChoice& choice, const GemmShape& shape, const GemmPointers& pointers,
                           StreamHandle stream) {
  if (shape.num_tokens == 0 || shape.num_outputs == 0) return;
  implementation_->run_with(choice, shape, pointers, stream);
}

}  // namespace troupe::cuda
