// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/matmul/onednn_matmul.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "gpu/cpu/kernels/number_formats.hpp"

// Of OpenMP's run time, in C as its standard has them: not every compiler comes with
// the header of the run time that Debian's oneDNN uses.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int num_threads);
}

namespace troupe {
namespace {

using Dims = dnnl::memory::dims;

// Rows for which a primitive is made: multiples of kRowStep up to kMaxRows, and
// what is left below one step. A batch runs as a few of these, so the number of
// primitives (about a millisecond of code generation each) is bounded.
constexpr std::size_t kRowStep = 32;
constexpr std::size_t kMaxRows = 512;
constexpr std::size_t kPanelWidth = PackedMatrix::kPanelWidth;

std::size_t rows_of_next_piece(std::size_t left) {
  if (left >= kMaxRows) return kMaxRows;
  return left < kRowStep ? left : left / kRowStep * kRowStep;
}

// OpenMP's thread count belongs to the calling thread.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneOpenMpThread() { omp_set_num_threads(before_); }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_;
};

struct PrimitiveKey {
  std::size_t rows = 0;
  std::size_t a_stride = 0;
  bool has_bias = false;
  auto operator<=>(const PrimitiveKey&) const = default;
};

dnnl::memory::data_type dnnl_type(DataType type) {
  return type == DataType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

Dims dims_of(std::size_t rows, std::size_t columns) {
  return {static_cast<dnnl::memory::dim>(rows), static_cast<dnnl::memory::dim>(columns)};
}

// Rows [first, first + count) of the stacked sources, converted, [count, K].
std::vector<std::byte> collect_rows(const std::vector<MatrixSource>& sources, std::size_t num_inputs,
                                    DataType type, std::size_t first, std::size_t count) {
  std::vector<std::byte> rows(count * num_inputs * size_of(type));
  std::size_t source_first = 0;
  for (const auto& source : sources) {
    const std::size_t stride = source.row_stride == 0 ? num_inputs : source.row_stride;
    const std::size_t begin = std::max(first, source_first);
    const std::size_t end = std::min(first + count, source_first + source.num_rows);
    for (std::size_t row = begin; row < end; ++row) {
      const auto* from =
          static_cast<const std::byte*>(source.values) + (row - source_first) * stride * size_of(source.type);
      std::byte* to = rows.data() + (row - first) * num_inputs * size_of(type);
      if (type == DataType::kBF16) {
        convert_to_bf16(source.type, from, reinterpret_cast<std::uint16_t*>(to), num_inputs);
      } else {
        convert_to_f32(source.type, from, reinterpret_cast<float*>(to), num_inputs);
      }
    }
    source_first += source.num_rows;
  }
  return rows;
}

}  // namespace

struct OnednnMatrix::State {
  struct Slice {
    std::size_t first_column = 0;
    std::size_t num_columns = 0;
    dnnl::memory weights;
    std::mutex mutex;  // guards primitives
    std::map<PrimitiveKey, std::pair<dnnl::matmul::primitive_desc, dnnl::matmul>> primitives;
  };

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::size_t num_outputs = 0;
  std::size_t num_inputs = 0;
  DataType type = DataType::kF32;
  std::vector<std::unique_ptr<Slice>> slices;

  dnnl::matmul::primitive_desc describe(const Slice& slice, const PrimitiveKey& key,
                                        const dnnl::memory::desc& weights) const {
    const auto f32 = dnnl::memory::data_type::f32;
    const dnnl::memory::desc a(dims_of(key.rows, num_inputs), dnnl_type(type), dims_of(key.a_stride, 1));
    const dnnl::memory::desc c(dims_of(key.rows, slice.num_columns), f32, dims_of(slice.num_columns, 1));
    const dnnl::memory::desc bias(dims_of(1, slice.num_columns), f32, dims_of(slice.num_columns, 1));
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto description =
        key.has_bias ? dnnl::matmul::desc(a, weights, bias, c) : dnnl::matmul::desc(a, weights, c);
    return {description, attributes, engine};
  }

  // The layout oneDNN likes for many rows; all numbers of rows then share it.
  void pack(Slice& slice, const std::vector<MatrixSource>& sources) {
    const dnnl::memory::desc any(dims_of(num_inputs, slice.num_columns), dnnl_type(type),
                                 dnnl::memory::format_tag::any);
    const auto wanted = describe(slice, {.rows = kMaxRows, .a_stride = num_inputs}, any);
    auto rows = collect_rows(sources, num_inputs, type, slice.first_column, slice.num_columns);
    const dnnl::memory::desc plain(dims_of(num_inputs, slice.num_columns), dnnl_type(type),
                                   dims_of(1, num_inputs));
    dnnl::memory from(plain, engine, rows.data());
    slice.weights = dnnl::memory(wanted.weights_desc(), engine);
    dnnl::stream stream(engine);
    dnnl::reorder(from, slice.weights).execute(stream, from, slice.weights);
    stream.wait();
  }

  std::pair<dnnl::matmul::primitive_desc, dnnl::matmul> find(Slice& slice, const PrimitiveKey& key) const {
    const std::lock_guard lock(slice.mutex);
    auto found = slice.primitives.find(key);
    if (found == slice.primitives.end()) {
      const auto description = describe(slice, key, slice.weights.get_desc());
      found = slice.primitives.emplace(key, std::pair{description, dnnl::matmul(description)}).first;
    }
    return found->second;
  }
};

struct OnednnMatmulRun {
  static void run(const OnednnMatmulArguments& arguments, std::size_t task) {
    const OneOpenMpThread one_thread;
    const auto& state = *arguments.weight->state_;
    auto& slice = *state.slices[task];
    for (std::size_t row = 0; row < arguments.num_rows;) {
      const std::size_t rows = rows_of_next_piece(arguments.num_rows - row);
      run_piece(arguments, state, slice, row, rows);
      row += rows;
    }
  }

 private:
  static void run_piece(const OnednnMatmulArguments& arguments, const OnednnMatrix::State& state,
                        OnednnMatrix::State::Slice& slice, std::size_t row, std::size_t rows) {
    thread_local std::vector<std::byte> scratchpad;
    thread_local std::vector<float> dense;  // [rows, columns of the slice]
    const auto [description, primitive] = state.find(
        slice, {.rows = rows, .a_stride = arguments.a_stride, .has_bias = arguments.bias != nullptr});
    scratchpad.resize(std::max(scratchpad.size(), description.scratchpad_desc().get_size() + 64));
    // oneDNN takes pointers to mutable memory for inputs too; it only reads them.
    auto* a = const_cast<std::byte*>(static_cast<const std::byte*>(arguments.a)) +
              row * arguments.a_stride * size_of(state.type);
    float* c = arguments.c + row * arguments.c_stride + slice.first_column;
    // For a result with gaps between its rows oneDNN 2.6 has only its reference
    // code, hundreds of times slower.
    const bool has_gaps = arguments.c_stride != slice.num_columns;
    if (has_gaps) dense.resize(std::max(dense.size(), rows * slice.num_columns));
    std::unordered_map<int, dnnl::memory> operands{
        {DNNL_ARG_SRC, {description.src_desc(), state.engine, a}},
        {DNNL_ARG_WEIGHTS, slice.weights},
        {DNNL_ARG_DST, {description.dst_desc(), state.engine, has_gaps ? dense.data() : c}},
        {DNNL_ARG_SCRATCHPAD, {description.scratchpad_desc(), state.engine, scratchpad.data()}}};
    if (arguments.bias != nullptr) {
      operands.insert(
          {DNNL_ARG_BIAS,
           {description.bias_desc(), state.engine, const_cast<float*>(arguments.bias) + slice.first_column}});
    }
    dnnl::stream stream(state.engine);
    primitive.execute(stream, operands);
    stream.wait();
    for (std::size_t i = 0; has_gaps && i < rows; ++i)
      std::copy_n(dense.data() + i * slice.num_columns, slice.num_columns, c + i * arguments.c_stride);
  }
};

bool OnednnMatrix::can_multiply(DataType type) {
  State state;
  state.num_inputs = kPanelWidth;
  state.type = type;
  State::Slice slice;
  slice.num_columns = kPanelWidth;
  const dnnl::memory::desc any(dims_of(kPanelWidth, kPanelWidth), dnnl_type(type),
                               dnnl::memory::format_tag::any);
  try {
    state.describe(slice, {.rows = kMaxRows, .a_stride = kPanelWidth}, any);
    return true;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return false;
    throw;
  }
}

OnednnMatrix::OnednnMatrix(const std::vector<MatrixSource>& sources, std::size_t num_inputs, DataType type,
                           std::size_t num_slices)
    : state_(std::make_unique<State>()) {
  const OneOpenMpThread one_thread;
  for (const auto& source : sources) state_->num_outputs += source.num_rows;
  state_->num_inputs = num_inputs;
  state_->type = type;
  const std::size_t num_panels = (state_->num_outputs + kPanelWidth - 1) / kPanelWidth;
  const std::size_t panels = (num_panels + num_slices - 1) / std::max<std::size_t>(1, num_slices);
  for (std::size_t first = 0; first < state_->num_outputs; first += panels * kPanelWidth) {
    auto slice = std::make_unique<State::Slice>();
    slice->first_column = first;
    slice->num_columns = std::min(panels * kPanelWidth, state_->num_outputs - first);
    state_->pack(*slice, sources);
    state_->slices.push_back(std::move(slice));
  }
}

OnednnMatrix::~OnednnMatrix() = default;
OnednnMatrix::OnednnMatrix(OnednnMatrix&&) noexcept = default;
OnednnMatrix& OnednnMatrix::operator=(OnednnMatrix&&) noexcept = default;

std::size_t OnednnMatrix::num_outputs() const { return state_->num_outputs; }
std::size_t OnednnMatrix::num_inputs() const { return state_->num_inputs; }
std::size_t OnednnMatrix::num_slices() const { return state_->slices.size(); }
DataType OnednnMatrix::type() const { return state_->type; }

std::size_t OnednnMatrix::size_bytes() const {
  std::size_t size = 0;
  for (const auto& slice : state_->slices) size += slice->weights.get_desc().get_size();
  return size;
}

std::size_t onednn_matmul_num_tasks(const OnednnMatmulArguments& arguments) {
  return arguments.num_rows == 0 ? 0 : arguments.weight->num_slices();
}

void onednn_matmul_run_task(const OnednnMatmulArguments& arguments, std::size_t task) {
  OnednnMatmulRun::run(arguments, task);
}

}  // namespace troupe
