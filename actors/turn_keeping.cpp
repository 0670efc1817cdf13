// SPDX-License-Identifier: Apache-2.0
#include "actors/turn_keeping.hpp"

#include <algorithm>
#include <ctime>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::int64_t kSecondsBetweenLooks = 3600;

std::int64_t unix_seconds() { return static_cast<std::int64_t>(std::time(nullptr)); }

std::vector<StoredTurn::Bytes> stored_ranges(const std::vector<TextRange>& ranges) {
  std::vector<StoredTurn::Bytes> out;
  for (const TextRange& range : ranges) out.push_back({range.begin, range.end});
  return out;
}

std::vector<TextRange> ranges_of(const std::vector<StoredTurn::Bytes>& stored) {
  std::vector<TextRange> out;
  for (const auto& range : stored) out.push_back({range.begin, range.end});
  return out;
}

StoredTurn stored_turn(const TurnChange& change, std::int64_t now) {
  const RememberedText& content = *change.content;
  return {.number = change.number,
          .before = change.before,
          .written = now,
          .tenant = change.tenant,
          .scope = content.scope,
          .key = content.key,
          .begin = content.begin,
          .text = content.text,
          .trusted = stored_ranges(content.trusted),
          .answer = content.answer,
          .answer_specials = stored_ranges(content.answer_specials),
          .tokens = content.tokens};
}

TurnChange remembered(StoredTurn&& turn) {
  auto content = std::make_shared<const RememberedText>(
      RememberedText{.key = turn.key,
                     .begin = turn.begin,
                     .text = std::move(turn.text),
                     .trusted = ranges_of(turn.trusted),
                     .answer = std::move(turn.answer),
                     .answer_specials = ranges_of(turn.answer_specials),
                     .tokens = std::move(turn.tokens),
                     .scope = std::move(turn.scope)});
  return {.number = turn.number,
          .before = turn.before,
          .tenant = std::move(turn.tenant),
          .content = std::move(content)};
}

bool is_of_model(const ServedModel& model, const StoredTurn& turn) {
  if (!model.tokenizer || !turn.scope.starts_with(turn_scope(model.vocabulary, ""))) return false;
  const auto size = static_cast<std::uint32_t>(model.tokenizer->vocabulary_size());
  return std::ranges::all_of(turn.tokens,
                             [&](TokenId token) { return static_cast<std::uint32_t>(token) < size; });
}

}  // namespace

TurnKeeping::TurnKeeping(std::shared_ptr<const StateDirectory> directory, std::shared_ptr<TurnMemory> memory,
                         std::span<const EngineModel> models, std::chrono::seconds keep)
    : directory_(std::move(directory)), memory_(std::move(memory)), keep_(keep), file_(*directory_) {
  memory_->tell_changes();
  restore(models);
  write();
}

void TurnKeeping::restore(std::span<const EngineModel> models) {
  std::vector<TurnChange> parts;
  for (StoredTurn& turn : file_.take_stored()) {
    const bool is_known = std::ranges::any_of(
        models, [&](const EngineModel& model) { return is_of_model(model.served, turn); });
    if (is_known) {
      parts.push_back(remembered(std::move(turn)));
    } else {
      (void)file_.erase(turn.number);  // the first write tries again, and tells
    }
  }
  memory_->restore(std::move(parts), file_.last_number());
  const auto size = memory_->size();
  if (size.num_parts > 0)
    log(LogLevel::kInfo, "turns of an earlier process are remembered",
        {{"parts", std::uint64_t{size.num_parts}}, {"bytes", std::uint64_t{size.num_bytes}}});
}

void TurnKeeping::write() {
  const auto now = unix_seconds();
  if (now - last_look_ >= kSecondsBetweenLooks) forget_old(now);
  write_changes(now);
}

void TurnKeeping::write_lastingly() {
  is_sync_due_ = true;
  (void)file_.remove_old();
  write();
}

void TurnKeeping::forget_old(std::int64_t now) {
  last_look_ = now;
  (void)file_.remove_old();
  if (keep_.count() > 0) memory_->forget(file_.written_before(now - keep_.count()));
}

void TurnKeeping::write_changes(std::int64_t now) {
  bool is_good = file_.overwrite_erased();
  for (TurnChange& change : memory_->take_changes()) {
    if (change.content) {
      unwritten_.emplace(change.number, std::move(change));
    } else if (unwritten_.erase(change.number) == 0) {
      is_good = file_.erase(change.number) && is_good;
    }
  }
  if (is_sync_due_) is_sync_due_ = !file_.sync_erased() || !is_good;
  note(add_unwritten(now) && is_good && !is_sync_due_);
}

// By number: each is behind the one that it continues.
bool TurnKeeping::add_unwritten(std::int64_t now) {
  for (auto next = unwritten_.begin(); next != unwritten_.end(); next = unwritten_.erase(next)) {
    const TurnChange& part = next->second;
    if (part.before != 0 && !file_.has(part.before)) continue;  // it could not be read back
    if (!file_.add(stored_turn(part, now))) return false;
  }
  return true;
}

void TurnKeeping::note(bool is_good) {
  const bool has_failed_before = std::exchange(has_failed_, !is_good);
  if (!is_good && !has_failed_before)
    log(LogLevel::kWarning,
        "turns of chats can't be written, or overwritten yet: that is tried again with each write");
}

std::shared_ptr<TurnKeeping> keep_turns(const EngineOptions& options,
                                        const std::shared_ptr<TurnMemory>& memory,
                                        std::span<const EngineModel> models) {
  if (!options.store.directory) return nullptr;
  const bool has_disk_tier = options.cache.disk || options.cache.is_disk_lacking;
  if (!has_disk_tier || !memory->is_on()) {
    remove_turn_file(*options.store.directory);
    return nullptr;
  }
  try {
    return std::make_shared<TurnKeeping>(
        options.store.directory, memory, models,
        std::chrono::duration_cast<std::chrono::seconds>(options.serving.keep_for));
  } catch (const std::exception& error) {
    memory->tell_no_changes();
    log(LogLevel::kWarning, "turns of chats are not kept beyond this process", {{"reason", error.what()}});
    return nullptr;
  }
}

}  // namespace troupe
