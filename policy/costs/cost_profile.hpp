// SPDX-License-Identifier: Apache-2.0
// Costs of serving, as measured once and stored: the time of a batch as a
// function of its shape, and what the live server adds around it. With it the
// simulator and capacity planning run the policies without a device.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/admitting/admission.hpp"
#include "policy/costs/recompute_cost.hpp"
#include "policy/forming/sequence_progress.hpp"
#include "policy/pages/restore_choice.hpp"
#include "policy/serving_settings.hpp"

namespace troupe {

// All that the time of a batch is taken to depend on.
struct IterationShape {
  std::uint32_t num_tokens = 0;  // query tokens
  std::uint32_t num_sequences = 0;
  std::uint32_t num_output_rows = 0;  // tokens drawn
  std::uint64_t decode_keys = 0;      // attended by steps of one token, summed
  std::uint64_t prefill_pairs = 0;    // query and key, of longer steps

  void add(const SequenceStep& step);
  bool operator==(const IterationShape&) const = default;
};

// Inline: called for every sequence in every iteration.
inline void IterationShape::add(const SequenceStep& step) {
  num_tokens += step.num_tokens;
  num_sequences += 1;
  num_output_rows += step.sample ? 1 : 0;
  const std::uint64_t n = step.num_tokens;
  if (n == 1) {
    decode_keys += step.context_length + 1;
  } else {
    prefill_pairs += n * step.context_length + n * (n + 1) / 2;
  }
}

// A sum of parts that grow with the shape, none ever negative:
//
//   fixed + slopes over num_tokens, one between each two knots + per_sequence
//         + per_output_row + per_decode_key + per_prefill_pair    (nanoseconds)
//
// The last slope goes on beyond the last knot.
struct IterationCost {
  double fixed = 0;
  std::vector<std::uint32_t> knots = {};  // ascending, the first is 1; empty: no slopes
  std::vector<double> slopes = {};        // slopes[i] from knots[i] on
  double per_sequence = 0;
  double per_output_row = 0;
  double per_decode_key = 0;
  double per_prefill_pair = 0;

  std::chrono::nanoseconds operator()(const IterationShape& shape) const;
};

struct CostSample {
  IterationShape shape;
  double nanoseconds = 0;
  double spread = 0;  // between repetitions: (upper - lower quartile) / median
};

// How well a cost describes the samples it came from: |fitted - measured| / measured.
struct FitQuality {
  double mean_error = 0, p90_error = 0, worst_error = 0;
};

// The reason why no cost can be fitted to the samples, or nothing: "expected a batch of 8 tokens to take
// ...".
std::string samples_problem(std::span<const CostSample> samples);

// The cost that comes nearest in relative error (least squares, nothing negative), of which samples that
// stand out are given less weight. Knots lie at powers of two up to the largest number of tokens. Too few
// samples to tell the parts apart: the parts that come first take it all. Stalls may be in any of the
// samples, so two bounds hold whatever was measured: the fixed part is at least what 64 keys take, and a
// batch of one token takes a nanosecond at least. The samples have no samples_problem(); none at all make a
// cost of zeros.
IterationCost fit_iteration_cost(std::span<const CostSample> samples);
FitQuality assess_fit(const IterationCost& cost, std::span<const CostSample> samples);

// The knee of throughput: the fewest tokens of a batch with which at least nine tenths of the
// best rate of tokens are reached. There is a sample.
std::uint32_t knee_of(std::span<const CostSample> samples);

// Overheads of a live server and its client. Times in nanoseconds.
struct ServingOverheads {
  double request = 0;           // from a client's send to the queue, and from the device
  double per_prompt_token = 0;  //   back to the client: connection, JSON, text, tokens
  double turnaround = 0;        // a batch is done, until the next could be handed in
  double iteration = 0;         // added to each batch while it is served live
  double iteration_per_sequence = 0;
  double end = 0;  // from the last token to the end of the answer

  std::chrono::nanoseconds before_queue(std::uint32_t prompt_tokens) const;
  std::chrono::nanoseconds of_iteration(std::uint32_t num_sequences) const;
};

// The measured server; a simulation may change it.
struct ProfiledServer {
  ServingSettings settings;
  ServingLimits limits;
  std::uint32_t page_size = 1;  // tokens
  std::uint32_t num_pages = 0, num_host_pages = 0, num_disk_pages = 0;
  RecomputeCost recompute_cost;  // nanoseconds where loads have a cost
  LoadCost load_from_host =
      {};  // nanoseconds; a store takes as long. Zeros: not measured, copies take no time
  // Nanoseconds between disk and host, for a page in either direction, and once for pages
  // that are read together. Zeros: not measured, the disk takes no time.
  LoadCost disk = {};

  // The way from the disk leads through the host.
  LoadCost load_from_disk() const {
    return {.fixed = load_from_host.fixed + disk.fixed, .per_page = load_from_host.per_page + disk.per_page};
  }
};

// The cells of a network that keep rows of state (decision 0026).
enum class GraphKind : std::uint8_t { kChain, kEncodeDecode, kTree };
struct ProfiledCell {
  std::string name;
  std::uint8_t priority = 0;
  std::uint32_t max_batch = 0;  // nodes, behind which there is little to be gained; 0: any number
  IterationCost cost;           // a node is a token and a sequence
};
struct ProfiledCells {
  GraphKind graphs = GraphKind::kChain;
  std::uint32_t num_rows = 0;       // of a worker
  std::vector<ProfiledCell> types;  // of a chain one, else two
};

// A flag of the measured server on which its figures stand, and which no simulation changes.
struct ProfiledFlag {
  std::string name;   // "--memory"
  std::string value;  // of "--model" the path's last part
  bool is_default = false;
};

struct CostProfile {
  std::string model, device, hardware, measured;  // measured: an ISO date and time
  ProfiledServer serving;
  IterationCost iteration;
  // Times measured over times fitted: ascending, each as likely as another, their mean 1.
  // Empty: a batch takes what is fitted.
  std::vector<double> residuals = {};
  ServingOverheads overheads;
  std::optional<ProfiledCells> cells = {};  // with them, `iteration` is the first one's
  std::vector<ProfiledFlag> flags = {};     // empty: the profile does not say
};

// The reason why the profile is unusable, or nothing: "iteration.knots: expected ...".
std::string profile_problem(const CostProfile& profile);

}  // namespace troupe
