// SPDX-License-Identifier: Apache-2.0
// A BERT in f64, written for reading: what the devices' numbers are compared with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gpu/model/model_config.hpp"

namespace troupe::test {

class BertReference {
 public:
  // The tensors' names without "bert." in front.
  explicit BertReference(const std::filesystem::path& model_dir);

  // Pooled, and normalized if the model says so.
  std::vector<double> vector_of(std::span<const std::int32_t> token_ids) const;

 private:
  using Rows = std::vector<std::vector<double>>;  // [tokens][columns]

  Rows embed(std::span<const std::int32_t> token_ids) const;
  Rows multiply(const Rows& a, const std::string& module) const;
  Rows attend(const Rows& q, const Rows& k, const Rows& v) const;
  void norm_sum(Rows& x, const Rows& residual, const std::string& module) const;
  const std::vector<double>& tensor(const std::string& name) const { return tensors_.at(name); }

  ModelConfig config_;
  std::map<std::string, std::vector<double>> tensors_;
};

// Of the angle between them.
double cosine(std::span<const float> a, std::span<const double> b);

}  // namespace troupe::test
