// SPDX-License-Identifier: Apache-2.0
// Requests that wait, taken by how much work they are: longest first, which packs memory
// (decreasing first fit, S3), or shortest first, which has the least mean wait. Either
// alone would let some wait for ever. Here each request lets others pass only so far:
//
//   fair share = the work in front of it when it began to wait, and its own
//   allowance  = (k - 1) times that; whatever overtakes takes its own work from it
//
// and what is more than an allowance does not overtake. So the work that starts while a
// request waits, of those that came before or after, is at most k times its fair share.
// One that comes back into the line, because it was preempted, counts anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

namespace troupe {

enum class AdmissionOrder : std::uint8_t { kArrival, kLongestFirst, kShortestFirst };

class WaitingLine {
 public:
  using Arrival = std::uint64_t;  // order of arrival; names a request
  using Question = std::function<bool(Arrival)>;

  // most_wait: the k above, at least 1, at which it is the order of arrival.
  explicit WaitingLine(AdmissionOrder order = AdmissionOrder::kArrival, double most_wait = 1)
      : order_(order), most_wait_(most_wait) {}

  void wait(Arrival request, std::uint64_t work);
  // Its work is known better, and with it its fair share. One that is not in the line is ignored.
  void set_work(Arrival request, std::uint64_t work);
  void start(Arrival request);     // it leaves the line, and has overtaken all in front
  void withdraw(Arrival request);  // it leaves the line

  // The first by the order, of those that may start and that all in front let pass.
  std::optional<Arrival> next(const Question& may_start) const;

  std::size_t size() const { return waiting_.size(); }

 private:
  friend class Fingerprint;
  struct Waiting {
    std::uint64_t work = 0;
    double allowance = 0;
  };

  AdmissionOrder order_;
  double most_wait_;
  std::map<Arrival, Waiting> waiting_;
};

}  // namespace troupe
