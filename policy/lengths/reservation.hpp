// SPDX-License-Identifier: Apache-2.0
// How much memory is set aside for answers before they are there. Set aside is a number
// of pages that admission keeps in mind; no page is held for it. A sequence that nears
// the end of its reservation is reported a page ahead, and either grows or gives way
// (S3's supervisor).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace troupe {

// kOnDemand: nothing; a newcomer joins while some share of pages stays free.
// kMax: what the answer may have at most (ORCA). kHistory: as the last answers were.
// kPredicted: a quantile of what its forecast says. kOracle: what its client foretells, or a
// simulation knows.
enum class ReservationPolicy : std::uint8_t { kOnDemand, kMax, kHistory, kPredicted, kOracle };

// The length of one answer, in tokens, as far as it is known ahead.
struct ForeseenLength {
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t max_tokens = 0;      // that it may have
  std::uint32_t ends_at = kNever;    // its client knows so, and wants it
  std::uint32_t foretold = 0;        // its client says so; 0: it does not
  std::uint32_t likely = 0;          // half are longer; 0: there is no forecast
  std::uint32_t reserved = 0;        // so, too, under kPredicted
  std::uint32_t refused = 0;         // the last guess was so many, for which there was no room; 0: there was
  std::uint32_t report_at = kNever;  // it has so many: it nears its reservation's end
  bool is_awaited = false;           // a forecast is on its way
  bool has_given_way = false;
  bool is_whole = false;  // it ended by itself

  // Reported a page ahead of the end, or at the end if a page is more than all of it;
  // never if it can't have more.
  void reserve(std::uint32_t num_tokens, std::uint32_t page_size) {
    reserved = std::clamp(num_tokens, 1U, max_tokens);
    report_at = reserved == max_tokens ? kNever : reserved > page_size ? reserved - page_size : reserved;
  }
};

// A sequence that nears its end.
struct Overrun {
  std::uint32_t reserved = 0;    // tokens
  std::uint32_t max_tokens = 0;  // of its answer, >= reserved
  bool has_given_way = false;    // once already
};
enum class OverrunAnswer : std::uint8_t { kGrow, kGiveWay };

// Twice as much, as far as its answer may go.
std::uint32_t doubled_reservation(const Overrun& overrun);

// It grows where the doubled reservation fits beside the others', and gives way once
// otherwise: from then on only a lack of pages stops it (policy/admitting/preemption.hpp).
OverrunAnswer answer_overrun(const Overrun& overrun, bool fits_doubled);

// A guess at the length of an answer that runs, in tokens.
struct LookedAt {
  std::uint32_t standing = 0;    // reserved so far
  std::uint32_t wanted = 0;      // as the look says
  std::uint32_t least = 0;       // with less it is reported before the next look can say more
  std::uint32_t max_tokens = 0;  // of the answer
  std::uint32_t page_size = 0;
};

// The reservation after a look. The guess is a quantile, which weighs too little against too much: it is
// reserved, and no more. Within a page, or an eighth of what stands, the reservation stays, upwards as
// downwards: another look comes before either costs anything, while a reservation that followed each guess
// up and not down would be the largest of its noisy guesses. One that ends before the next look is another
// matter: there too little costs twice as much memory, or the pages, and it grows to `least` at once.
std::uint32_t reservation_after_look(const LookedAt& look);

// Which of the waiting ranks of a history is a sequence's, in [0, 1): the sequences'
// ranks are spread evenly whatever their number. scenario: another spread.
double spread_rank(std::uint64_t arrival, std::uint32_t scenario);

}  // namespace troupe
