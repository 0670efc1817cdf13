// SPDX-License-Identifier: Apache-2.0
// Requests that wait, taken by how much work they are: longest first, which packs memory
// (decreasing first fit, S3), or shortest first, which has the least mean wait. Either
// alone would let some wait for ever. Here each request lets others pass only so far:
//
//   fair share = what goes before it in order of arrival, and its own work: what has started
//                from in front of it since it began to wait, and what waits there now
//
// Whenever next() gives a request, all that has overtaken one in front of it that waits, this
// one included, is at most (k - 1) times the waiting one's fair share, by works as they are
// known at that moment: those of requests that have started, too. So of what starts while a request waits,
// from in front and behind, all is at most k times its fair share, if works stay as they were, none in front
// is withdrawn and only what next() gives starts. A share that shrinks, because a work turns out smaller or
// one in front is withdrawn, takes back what is left of the allowance; nothing more overtakes until
// the share has grown beyond what has. One that comes back, because it was preempted, waits again: what it
// adds to the shares of those behind it counts once, however often it starts, as it would start before them
// by arrival, too. Each start counts for those that it has overtaken, as they have waited for it: with the
// work that was known when the request came back, and the next one on top. Its own wait counts anew.
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
  // Its work is known better, and with it the fair shares of it and of all behind it. Takes no pass over the
  // line while it waits, and one once it has started. One that is unknown is ignored.
  void set_work(Arrival request, std::uint64_t work);
  void start(Arrival request);     // it leaves the line, and has overtaken all in front
  void withdraw(Arrival request);  // it leaves the line
  // It waits no more and has done so much work, which is its work from now on; it is forgotten.
  void end(Arrival request, std::uint64_t work);

  // The first by the order, of those that may start and that all in front let pass.
  std::optional<Arrival> next(const Question& may_start) const;

  std::size_t size() const { return waiting_.size(); }

 private:
  friend class Fingerprint;
  struct Waiting {
    std::uint64_t work = 0;
    std::uint64_t started_in_front = 0;  // work, since it waits, of what does not wait again
    std::uint64_t overtaken_by = 0;      // work, since it waits, of each start
    std::uint64_t since = 0;             // starts before it began to wait
  };
  struct Started {
    std::uint64_t work = 0;    // of its last start
    std::uint64_t number = 0;  // so, too
  };

  void revise(Arrival request, Started& started, std::uint64_t work);
  void count_in_front(Arrival request, const Started& started, std::uint64_t work);
  void count_overtaking(Arrival request, const Started& started, std::uint64_t work);

  AdmissionOrder order_;
  double most_wait_;
  std::map<Arrival, Waiting> waiting_;
  std::map<Arrival, Started> started_;  // and not ended; some wait again, and count as what waits
  std::uint64_t num_starts_ = 0;
};

}  // namespace troupe
