// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/bert_reference.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "gpu/model/weights.hpp"

namespace troupe::test {

BertReference::BertReference(const std::filesystem::path& model_dir) : config_(load_model_config(model_dir)) {
  const WeightStore store(model_dir);
  for (const auto& [name, ignored] : store.tensors()) {
    const auto view = store.find(name);
    if (view.type != DataType::kF32) throw std::runtime_error(name + " is not f32");
    std::vector<float> values(view.bytes.size() / sizeof(float));
    std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
    tensors_[name].assign(values.begin(), values.end());
  }
}

std::vector<double> BertReference::vector_of(std::span<const std::int32_t> token_ids) const {
  Rows x = embed(token_ids);
  norm_sum(x, Rows(x.size(), std::vector<double>(config_.hidden_size)), "embeddings.LayerNorm");
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = "encoder.layer." + std::to_string(layer) + ".";
    const std::string self = prefix + "attention.self.";
    Rows sum =
        multiply(attend(multiply(x, self + "query"), multiply(x, self + "key"), multiply(x, self + "value")),
                 prefix + "attention.output.dense");
    norm_sum(sum, x, prefix + "attention.output.LayerNorm");
    Rows h = multiply(sum, prefix + "intermediate.dense");
    for (auto& row : h)
      for (double& value : row) value *= 0.5 * std::erfc(-value / std::sqrt(2.0));
    x = multiply(h, prefix + "output.dense");
    norm_sum(x, sum, prefix + "output.LayerNorm");
  }
  std::vector<double> vector(config_.hidden_size);
  const std::size_t num_pooled = config_.encoder->pooling == PoolingMode::kCls ? 1 : token_ids.size();
  double squares = 0.0;
  for (std::size_t i = 0; i < vector.size(); ++i) {
    for (std::size_t t = 0; t < num_pooled; ++t) vector[i] += x[t][i];
    vector[i] /= static_cast<double>(num_pooled);
    squares += vector[i] * vector[i];
  }
  if (config_.encoder->normalizes)
    for (double& value : vector) value /= std::sqrt(squares);
  return vector;
}

BertReference::Rows BertReference::embed(std::span<const std::int32_t> token_ids) const {
  const std::size_t width = config_.hidden_size;
  Rows x(token_ids.size(), std::vector<double>(width));
  for (std::size_t t = 0; t < x.size(); ++t) {
    const auto id = static_cast<std::size_t>(token_ids[t]);
    for (std::size_t i = 0; i < width; ++i)
      x[t][i] = tensor("embeddings.word_embeddings.weight")[id * width + i] +
                tensor("embeddings.position_embeddings.weight")[t * width + i] +
                tensor("embeddings.token_type_embeddings.weight")[i];
  }
  return x;
}

BertReference::Rows BertReference::multiply(const Rows& a, const std::string& module) const {
  const auto& weight = tensor(module + ".weight");
  Rows c(a.size(), tensor(module + ".bias"));
  for (std::size_t t = 0; t < a.size(); ++t)
    for (std::size_t n = 0; n < c[t].size(); ++n)
      for (std::size_t k = 0; k < a[t].size(); ++k) c[t][n] += a[t][k] * weight[n * a[t].size() + k];
  return c;
}

BertReference::Rows BertReference::attend(const Rows& q, const Rows& k, const Rows& v) const {
  const std::size_t dim = config_.head_dim;
  Rows attended(q.size(), std::vector<double>(config_.hidden_size));
  for (std::size_t t = 0; t < q.size(); ++t) {
    for (std::size_t column = 0; column < config_.hidden_size; column += dim) {
      std::vector<double> weights(q.size());
      double total = 0.0;
      for (std::size_t s = 0; s < q.size(); ++s) {
        double score = 0.0;
        for (std::size_t d = column; d < column + dim; ++d) score += q[t][d] * k[s][d];
        weights[s] = std::exp(score / std::sqrt(static_cast<double>(dim)));
        total += weights[s];
      }
      for (std::size_t s = 0; s < q.size(); ++s)
        for (std::size_t d = column; d < column + dim; ++d) attended[t][d] += weights[s] / total * v[s][d];
    }
  }
  return attended;
}

void BertReference::norm_sum(Rows& x, const Rows& residual, const std::string& module) const {
  const auto& weight = tensor(module + ".weight");
  const auto& bias = tensor(module + ".bias");
  for (std::size_t t = 0; t < x.size(); ++t) {
    const auto width = static_cast<double>(x[t].size());
    double mean = 0.0, variance = 0.0;
    for (std::size_t i = 0; i < x[t].size(); ++i) mean += (x[t][i] += residual[t][i]) / width;
    for (const double value : x[t]) variance += (value - mean) * (value - mean) / width;
    for (std::size_t i = 0; i < x[t].size(); ++i)
      x[t][i] = (x[t][i] - mean) / std::sqrt(variance + double{config_.norm_epsilon}) * weight[i] + bias[i];
  }
}

double cosine(std::span<const float> a, std::span<const double> b) {
  double product = 0.0, a_squares = 0.0, b_squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += a[i] * b[i];
    a_squares += double{a[i]} * a[i];
    b_squares += b[i] * b[i];
  }
  return product / std::sqrt(a_squares * b_squares);
}

}  // namespace troupe::test
