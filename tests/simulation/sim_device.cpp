// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sim_device.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "gpu/program/mask_slot.hpp"
#include "loadgen/simulator/simulated_states.hpp"
#include "tests/actors/byte_tokenizer.hpp"

namespace troupe::sim {
namespace {

// One end in so many tokens.
constexpr std::uint64_t kEndInterval = 48;
constexpr std::uint64_t kNumLetters = 26;

std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

namespace {

// One that the model draws by itself.
bool has_usual_token(const TokenMask& mask) {
  for (int letter = 0; letter < static_cast<int>(kNumLetters); ++letter)
    if (has_token(mask, static_cast<std::size_t>('a' + letter))) return true;
  return has_token(mask, ByteTokenizer::kEos);
}

std::int32_t any_token(const TokenMask& mask, std::uint64_t hash) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t token = 0; token <= ByteTokenizer::kEos; ++token)
    if (has_token(mask, static_cast<std::size_t>(token))) tokens.push_back(token);
  return tokens.at(hash % tokens.size());
}

}  // namespace

std::int32_t sim_token(std::span<const std::int32_t> tokens, std::uint64_t seed,
                       std::span<const std::int32_t> suppressed, const SimCounts& penalized,
                       const TokenMask& allowed) {
  std::uint64_t hash = mix(seed + 1);
  for (const auto& [id, number] : penalized) hash ^= mix(static_cast<std::uint64_t>(id) << 32 | number);
  for (const std::int32_t token : tokens) hash = mix(hash ^ static_cast<std::uint32_t>(token));
  if (!allowed.empty() && !has_usual_token(allowed)) return any_token(allowed, hash);
  while (true) {
    const std::int32_t token = hash % kEndInterval == 0
                                   ? ByteTokenizer::kEos
                                   : static_cast<std::int32_t>('a' + hash / kEndInterval % kNumLetters);
    const bool is_allowed = allowed.empty() || has_token(allowed, static_cast<std::size_t>(token));
    if (is_allowed && std::find(suppressed.begin(), suppressed.end(), token) == suppressed.end())
      return token;
    hash = mix(hash);
  }
}

std::uint32_t sim_tokens_left(std::vector<std::int32_t> tokens, std::uint64_t seed) {
  constexpr std::uint32_t kMost = 256;
  for (std::uint32_t num_left = 1; num_left < kMost; ++num_left) {
    tokens.push_back(sim_token(tokens, seed, {}));
    if (tokens.back() == ByteTokenizer::kEos) return num_left;
  }
  return kMost;
}

float sim_logprob(std::int32_t token, std::size_t position) {
  return -static_cast<float>((static_cast<std::size_t>(token) * 31 + position) % 997) / 64;
}

void SimDevices::note_departure() {
  const auto has_move = [this](bool to_host) {
    return std::any_of(alive.begin(), alive.end(),
                       [&](const auto& entry) { return entry.second->has_move_in_flight(to_host); });
  };
  num_left_in_load += has_move(false) ? 1 : 0;
  num_left_in_store += has_move(true) ? 1 : 0;
  num_left_in_read += num_reads_under_way > 0 ? 1 : 0;
}

SimDevice::SimDevice(SimDeviceSettings settings, std::shared_ptr<SimDevices> shared, WorkerId worker)
    : settings_(std::move(settings)),
      shared_(std::move(shared)),
      worker_(worker),
      pages_(settings_.description.num_pages,
             std::vector<std::int32_t>(settings_.description.page_size, kUnwritten)),
      slots_(settings_.description.num_slots, kUnwritten),
      recent_(settings_.description.num_slots) {
  if (!settings_.is_second) {
    shared_->num_devices += 1;
    shared_->busy_until[worker_] = TimePoint{};
  }
  settings_.description.hands_out_states = settings_.state_strength.has_value();
  if (!siblings().emplace(worker_, this).second)
    shared_->violations.push_back("two devices of a worker at once");
}

SimDevices::Begun SimDevices::begin(WorkerId worker, const Batch& batch, std::chrono::nanoseconds cost) {
  const std::uint64_t number = ++num_batches;
  submitting = worker;
  const Fault fault = choose_fault ? choose_fault(batch, number) : Fault::kNone;
  if (fault == Fault::kThrowInSubmit) throw std::runtime_error("simulated failure of submit");
  if (fault == Fault::kThrowSomethingElse) throw 42;  // NOLINT
  TimePoint& busy = busy_until[worker];
  const TimePoint start = std::max(busy, now());
  const bool never = fault == Fault::kNeverCompletes || busy == TimePoint::max();
  busy = never ? TimePoint::max() : start + cost;
  return {.fault = fault, .done = busy};
}

SimDevice::~SimDevice() { siblings().erase(worker_); }

Ticket SimDevice::submit(std::shared_ptr<const Program>, std::shared_ptr<const Batch> batch) {
  check(*batch);
  const auto [fault, done] =
      shared_->begin(worker_, *batch, settings_.batch_time + settings_.token_time * batch->num_tokens());
  queue_.push_back({.batch = std::move(batch), .done = done, .fault = fault});
  return ++num_submitted_;
}

void SimDevice::check(const Batch& batch) {
  const DeviceDescription& device = settings_.description;
  std::uint32_t num_tokens = 0;
  std::map<SlotId, std::uint64_t> owners;
  for (const auto& slice : batch.slices) {
    num_tokens += slice.num_tokens;
    const auto [ran_on, is_new] = shared_->ran_on.emplace(slice.sequence, worker_);
    shared_->num_moved += std::exchange(ran_on->second, worker_) != worker_ ? 1 : 0;
    if (slice.num_tokens == 0) report(batch, slice, "no tokens");
    const bool is_its_own = owners.try_emplace(slice.slot, slice.sequence).first->second == slice.sequence;
    if (slice.slot >= device.num_slots || !is_its_own) report(batch, slice, "a slot that is not its own");
    if (slice.num_pages * device.page_size < slice.context_length + slice.num_tokens)
      report(batch, slice, "too few pages");
    if (slice.first_page + slice.num_pages > batch.page_table.size())
      report(batch, slice, "pages beyond the table");
    if (slice.context_length + slice.num_tokens > device.context_length)
      report(batch, slice, "longer than the context");
    if (shared_->ended.contains(slice.sequence)) report(batch, slice, "it had ended before");
    if (is_in_flight_elsewhere(batch, slice)) report(batch, slice, "a page still in use");
  }
  if (batch.num_penalized_tokens() > device.max_penalized_tokens)
    shared_->violations.push_back("batch " + std::to_string(batch.id) + ": more penalized tokens than fit");
  const std::size_t most_pages = (device.context_length + device.page_size - 1) / device.page_size;
  if (batch.page_table.size() > device.num_slots * most_pages)
    shared_->violations.push_back("batch " + std::to_string(batch.id) + ": pages listed twice");
  if (batch.num_output_rows() > device.num_slots)
    shared_->violations.push_back("batch " + std::to_string(batch.id) + ": too many output rows");
  if (num_tokens != batch.num_tokens() || num_tokens > device.max_batch_tokens ||
      owners.size() > device.num_slots)
    shared_->violations.push_back("batch " + std::to_string(batch.id) + ": wrong size");
}

// Does it write to a page that a batch in flight has for another sequence?
bool SimDevice::is_in_flight_elsewhere(const Batch& batch, const SequenceSlice& slice) const {
  const std::uint32_t first = slice.context_length / settings_.description.page_size;
  for (const auto& submitted : queue_) {
    for (const auto& other : submitted.batch->slices) {
      if (other.sequence == slice.sequence) continue;
      const auto begin = submitted.batch->page_table.begin() + other.first_page;
      for (std::uint32_t i = first; i < slice.num_pages; ++i)
        if (std::find(begin, begin + other.num_pages, batch.page_table[slice.first_page + i]) !=
            begin + other.num_pages)
          return true;
    }
  }
  return false;
}

Ticket SimDevice::completed() const noexcept {
  const TimePoint now = shared_->now();
  Ticket ticket = num_collected_;
  for (const auto& submitted : queue_) {
    if (submitted.done > now) break;
    ticket += 1;
  }
  return ticket;
}

BatchResult SimDevice::collect(Ticket ticket) {
  if (ticket != num_collected_ + 1 || ticket > completed()) throw std::logic_error("collected out of order");
  const Submitted submitted = std::move(queue_.front());
  queue_.pop_front();
  num_collected_ += 1;
  if (submitted.fault == Fault::kThrowInCollect) throw std::runtime_error("simulated failure of collect");
  BatchResult result;
  result.batch_id = submitted.batch->id;
  if (submitted.fault == Fault::kBatchError) {
    result.error = "simulated failure of a batch";
    return result;
  }
  move(*submitted.batch, result);
  std::size_t first_token = 0;
  for (std::size_t i = 0; i < submitted.batch->slices.size(); ++i) {
    const SequenceSlice& slice = submitted.batch->slices[i];
    const std::int32_t token = execute(*submitted.batch, i, first_token);
    result.tokens.push_back(token);
    first_token += slice.num_tokens;
    if (slice.wants_state) hand_out_state(*submitted.batch, slice, result);
    if (!slice.sample || !slice.sampling.wants_logprobs()) continue;
    result.logprobs.resize(submitted.batch->slices.size());
    TokenLogprobs& logprobs = result.logprobs[result.tokens.size() - 1];
    logprobs.logprob = sim_logprob(token, slice.context_length + slice.num_tokens);
    for (std::int32_t rank = 0; rank < slice.sampling.top_logprobs; ++rank)
      logprobs.top.push_back({'a' + rank, -static_cast<float>(rank)});
  }
  return result;
}

// The step has drawn its token; of a context that is void the length is that of other tokens.
void SimDevice::hand_out_state(const Batch& batch, const SequenceSlice& slice, BatchResult& result) {
  std::vector<std::int32_t> tokens;
  for (std::uint32_t i = 0; i < slice.context_length + slice.num_tokens; ++i)
    tokens.push_back(kv(batch, slice, i));
  const auto num_tokens = static_cast<std::uint32_t>(tokens.size());
  loadgen::append_simulated_state({.strength = settings_.state_strength.value()},
                                  {.request = slice.sequence,
                                   .num_generated = num_tokens,
                                   .num_left = sim_tokens_left(std::move(tokens), seed_of(slice))},
                                  result.states);
}

std::uint64_t SimDevice::seed_of(const SequenceSlice& slice) const {
  return slice.sampling.seed + (settings_.is_second ? kSecondDialect : 0);
}

void SimDevice::move(const Batch& batch, BatchResult& result) {
  auto& host_pages = settings_.is_second ? shared_->second_host_pages : shared_->host_pages;
  host_pages.resize(settings_.description.num_host_pages);
  for (const PageCopy& move : batch.copies) {
    auto& page = pages_.at(move.device_page);
    if (move.is_within()) {
      shared_->num_copies_within += 1;
      page = pages_.at(move.from_page);
      continue;
    }
    auto& host = host_pages.at(move.host_page);
    if (move.is_store()) {
      shared_->num_stores += 1;
      const bool is_void = std::find(page.begin(), page.end(), kVoid) != page.end();
      host = {.generation = is_void ? 0 : move.generation, .tokens = page};
      continue;
    }
    shared_->num_loads += 1;
    const bool is_damaged = shared_->choose_damage && shared_->choose_damage();
    if (host.generation == move.generation && !is_damaged) {
      page = host.tokens;
    } else {
      shared_->num_failed_loads += 1;
      std::fill(page.begin(), page.end(), kVoid);
      result.failed_loads.push_back(move.generation);
    }
  }
}

bool SimDevice::has_move_in_flight(bool to_host) const {
  for (const auto& submitted : queue_)
    for (const PageCopy& move : submitted.batch->copies)
      if (to_host ? move.is_store() : move.is_load()) return true;
  return false;
}

bool SimDevice::reads_void(const Batch& batch, const SequenceSlice& slice) const {
  const std::uint32_t page_size = settings_.description.page_size;
  for (std::uint32_t i = 0; i < slice.context_length; ++i) {
    const PageId page = batch.page_table.at(slice.first_page + i / page_size);
    if (pages_.at(page)[i % page_size] == kVoid) return true;
  }
  return false;
}

std::int32_t SimDevice::execute(const Batch& batch, std::size_t index, std::size_t first_token) {
  const SequenceSlice& slice = batch.slices[index];
  if (reads_void(batch, slice)) {
    for (std::uint32_t i = 0; i < slice.num_tokens; ++i) write(batch, slice, slice.context_length + i, kVoid);
    return kVoidContext;
  }
  for (std::uint32_t i = 0; i < slice.num_tokens; ++i)
    write(batch, slice, slice.context_length + i,
          slice.input_from_slot ? slots_[slice.slot] : batch.token_ids[first_token + i]);
  if (!slice.sample) return -1;
  if (slice.input_from_slot && slots_[slice.slot] == kUndrawn) return -1;
  std::vector<std::int32_t> tokens;
  for (std::uint32_t i = 0; i < slice.context_length + slice.num_tokens; ++i) {
    tokens.push_back(kv(batch, slice, i));
    if (tokens.back() == kUndrawn) report(batch, slice, "KV of a token that was never drawn");
    if (tokens.back() == kUnwritten) report(batch, slice, "KV that was never written");
  }
  if (slice.scored_token >= 0) return slice.scored_token;
  TokenMask allowed = slice.allowed;
  if (!batch.awaited_masks.empty() && batch.awaited_masks[index]) {
    const auto mask = awaited_mask(*batch.awaited_masks[index]);
    if (!mask) {
      slots_[slice.slot] = kUndrawn;
      return kNoMask;
    }
    allowed = *mask;
  }
  slots_[slice.slot] =
      sim_token(tokens, seed_of(slice), slice.suppressed,
                slice.sampling.has_penalties() ? counts_of(batch, slice) : SimCounts{}, allowed);
  recent_[slice.slot][tokens.size() % kRecentTokens] = slots_[slice.slot];
  return slots_[slice.slot];
}

std::shared_ptr<const TokenMask> SimDevice::awaited_mask(MaskSlot& slot) {
  auto mask = slot.wait({});
  if (mask && shared_->choose_late_mask && shared_->choose_late_mask()) mask = nullptr;
  (mask ? shared_->num_masks_in_time : shared_->num_masks_late) += 1;
  return mask;
}

SimCounts SimDevice::counts_of(const Batch& batch, const SequenceSlice& slice) {
  SimCounts counts;
  for (const PenalizedToken& token : slice.penalized)
    if (!counts.emplace(token.id, token.num_generated).second)
      report(batch, slice, "a penalized token twice");
  if (slice.num_pending > kRecentTokens) report(batch, slice, "more pending than remembered");
  const std::uint32_t position = slice.context_length + slice.num_tokens;
  for (std::uint32_t i = 1; i <= slice.num_pending; ++i)
    counts[recent_[slice.slot][(position - i) % kRecentTokens]] += 1;
  return counts;
}

std::int32_t& SimDevice::kv(const Batch& batch, const SequenceSlice& slice, std::uint32_t position) {
  const std::uint32_t page_size = settings_.description.page_size;
  const PageId page = batch.page_table.at(slice.first_page + position / page_size);
  return pages_.at(page)[position % page_size];
}

// What is in a page behind the tokens that were written is left from before.
void SimDevice::write(const Batch& batch, const SequenceSlice& slice, std::uint32_t position,
                      std::int32_t token) {
  std::int32_t& written = kv(batch, slice, position);
  const std::uint32_t page_size = settings_.description.page_size;
  if (position % page_size == 0) std::fill_n(&written, page_size, kUnwritten);
  written = token;
}

void SimDevice::report(const Batch& batch, const SequenceSlice& slice, const std::string& what) {
  shared_->violations.push_back("batch " + std::to_string(batch.id) + ", sequence " +
                                std::to_string(slice.sequence) + ": " + what);
}

std::optional<std::chrono::nanoseconds> SimDevice::poll_delay() const {
  if (!settings_.is_polled) return std::nullopt;
  constexpr std::chrono::nanoseconds kShortest{1'000};
  constexpr std::chrono::seconds kLongest{1};
  if (queue_.empty() || queue_.front().done == TimePoint::max()) return kLongest;
  return std::max<std::chrono::nanoseconds>(kShortest, queue_.front().done - shared_->now());
}

TimePoint SimDevice::next_completion() const {
  if (settings_.is_polled) return TimePoint::max();
  const std::size_t num_told = num_rung_ > num_collected_ ? num_rung_ - num_collected_ : 0;
  return num_told < queue_.size() ? queue_[num_told].done : TimePoint::max();
}

void SimDevice::ring_if_due() {
  if (settings_.is_polled || completed() <= num_rung_) return;
  num_rung_ = completed();
  if (listener_) listener_();
}

}  // namespace troupe::sim
