// SPDX-License-Identifier: Apache-2.0
// What a driver may refuse although the program has done nothing wrong. The twins ask; a test
// says so for as long as it keeps one of these, one at a time and while no other thread runs.
#pragma once

namespace troupe::simt {

struct Refusal {
  bool of_host_registration = false;  // cudaHostRegister: locked memory is limited
  bool of_heuristics = false;         // cuBLASLt knows no algorithm of a legal product
};

class Refusals {
 public:
  explicit Refusals(const Refusal& refusal);
  ~Refusals();
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  static const Refusal& now();
};

}  // namespace troupe::simt
