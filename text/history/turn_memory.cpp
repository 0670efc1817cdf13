// SPDX-License-Identifier: Apache-2.0
#include "text/history/turn_memory.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kBytesAPart = 512;  // of the maps and lists, about
constexpr std::size_t kLargestShare = 4;  // one part may have 1 / so much of all bytes

// The same part with less of its answer.
bool is_shortened(const RememberedText& part, const RememberedText& fuller) {
  return part.before == fuller.before && part.begin == fuller.begin && part.scope == fuller.scope &&
         part.text == fuller.text && part.trusted == fuller.trusted &&
         part.answer.size() < fuller.answer.size() && fuller.answer.starts_with(part.answer);
}

}  // namespace

std::size_t RememberedText::num_bytes() const {
  return kBytesAPart + text.capacity() + answer.capacity() + scope.capacity() +
         tokens.capacity() * sizeof(TokenId) +
         (trusted.capacity() + answer_specials.capacity()) * sizeof(TextRange);
}

bool RememberedText::has_same_content(const RememberedText& other) const {
  return before == other.before && key == other.key && begin == other.begin && scope == other.scope &&
         tokens == other.tokens && text == other.text && trusted == other.trusted && answer == other.answer &&
         answer_specials == other.answer_specials;
}

std::string turn_scope(std::uint64_t vocabulary, const std::string& cache_salt) {
  return std::to_string(vocabulary) + ':' + cache_salt;
}

std::shared_ptr<const RememberedText> TurnMemory::find(const std::string& tenant,
                                                       std::span<const std::uint64_t> keys) {
  const std::lock_guard lock(mutex_);
  const auto owner = tenants_.find(tenant);
  if (owner == tenants_.end()) return nullptr;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    const auto found = owner->second.parts.find(*key);
    if (found == owner->second.parts.end()) continue;
    use(owner->second, &found->second);
    return found->second.content;
  }
  return nullptr;
}

void TurnMemory::remember(const std::string& tenant, const std::shared_ptr<const RememberedText>& before,
                          std::vector<RememberedText> parts) {
  const std::lock_guard lock(mutex_);
  Tenant& owner = tenants_[tenant];
  Part* parent = nullptr;
  bool fits = true;
  if (before) {
    parent = stored(owner, before);
    if (parent == nullptr) {
      const auto fuller = owner.parts.find(before->key);
      if (fuller != owner.parts.end() && is_shortened(*before, *fuller->second.content))
        parent = add(tenant, owner, fuller->second.parent, *before);
    }
    fits = parent != nullptr;
  }
  for (auto& content : parts) {
    content.before = parent != nullptr ? parent->content : nullptr;
    content.depth = parent != nullptr ? parent->content->depth + 1 : 0;
    fits = fits && content.depth < kMaxDepth && content.num_bytes() <= limits_.max_bytes / kLargestShare;
    if (!fits) break;
    Part* part = add(tenant, owner, parent, std::move(content));
    if (part == nullptr) break;
    parent = part;
  }
  if (parent != nullptr) use(owner, parent);
  if (owner.parts.empty()) tenants_.erase(tenant);
  make_room();
}

void TurnMemory::forget(const std::string& tenant, std::span<const TokenId> tokens, std::size_t num_kept) {
  const std::lock_guard lock(mutex_);
  const auto owner = tenants_.find(tenant);
  if (owner == tenants_.end()) return;
  struct Begun {
    Part* part;
    std::size_t at;  // where its tokens would begin
  };
  std::vector<Begun> begun;
  for (Part* part : owner->second.by_age)
    if (part->parent == nullptr) begun.push_back({part, 0});
  while (!begun.empty()) {
    const auto [part, at] = begun.back();
    begun.pop_back();
    const auto& own = part->content->tokens;
    const auto rest = tokens.subspan(at);
    if (own.size() > rest.size() || !std::equal(own.begin(), own.end(), rest.begin())) continue;
    const auto end = at + own.size();
    if (end > num_kept) {
      remove(owner->second, part);
    } else {
      for (Part* next : part->children) begun.push_back({next, end});
    }
  }
  drop_empty_tenants();
}

void TurnMemory::forget(std::span<const std::uint64_t> numbers) {
  const std::set<std::uint64_t> named(numbers.begin(), numbers.end());
  const std::lock_guard lock(mutex_);
  for (auto& [name, tenant] : tenants_) {
    std::set<const Part*> going;
    std::vector<Part*> first;           // of those that go: none continues another
    for (Part* part : tenant.by_age) {  // a part is in front of what continues it
      const bool goes_with_parent = part->parent != nullptr && going.contains(part->parent);
      if (!goes_with_parent && !named.contains(part->number)) continue;
      going.insert(part);
      if (!goes_with_parent) first.push_back(part);
    }
    for (Part* part : first) remove(tenant, part);
  }
  drop_empty_tenants();
}

TurnMemorySize TurnMemory::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

void TurnMemory::tell_changes() {
  const std::lock_guard lock(mutex_);
  tells_changes_ = true;
}

void TurnMemory::tell_no_changes() {
  const std::lock_guard lock(mutex_);
  tells_changes_ = false;
  told_forgotten_ = {};
  told_remembered_ = {};
}

std::vector<TurnChange> TurnMemory::take_changes() {
  const std::lock_guard lock(mutex_);
  std::vector<TurnChange> changes;
  changes.reserve(told_forgotten_.size() + told_remembered_.size());
  for (const auto number : std::exchange(told_forgotten_, {})) changes.push_back({.number = number});
  for (auto& [number, change] : std::exchange(told_remembered_, {})) changes.push_back(std::move(change));
  return changes;
}

void TurnMemory::restore(std::vector<TurnChange> parts, std::uint64_t last_number) {
  const std::lock_guard lock(mutex_);
  last_number_ = std::max(last_number_, last_number);
  std::map<std::uint64_t, Part*> known;
  for (const TurnChange& part : parts) {
    last_number_ = std::max(last_number_, part.number);
    if (Part* inserted = insert_restored(part, known)) {
      known.emplace(part.number, inserted);
    } else {
      tell_forgotten(part.number);
    }
  }
  order_restored(known);
  make_room();
}

// Null: it continues nothing that is there, or is more than may be remembered.
TurnMemory::Part* TurnMemory::insert_restored(const TurnChange& part,
                                              const std::map<std::uint64_t, Part*>& known) {
  RememberedText content = *part.content;
  Part* parent = nullptr;
  if (part.before != 0) {
    const auto before = known.find(part.before);
    if (before == known.end() || before->second->content->end() != content.begin) return nullptr;
    parent = before->second;
    content.before = parent->content;
    content.depth = parent->content->depth + 1;
  } else if (content.begin != 0) {
    return nullptr;
  }
  Tenant& tenant = tenants_[part.tenant];
  const bool is_of_tenant = parent == nullptr || stored(tenant, parent->content) == parent;
  const bool fits = is_of_tenant && content.depth < kMaxDepth &&
                    content.num_bytes() <= limits_.max_bytes / kLargestShare &&
                    !tenant.parts.contains(content.key);
  Part* inserted = fits ? insert(tenant, parent, part.number, std::move(content)) : nullptr;
  if (tenant.parts.empty()) tenants_.erase(part.tenant);
  return inserted;
}

// By the last part that continues each, as if that had been its last use.
void TurnMemory::order_restored(const std::map<std::uint64_t, Part*>& known) {
  std::unordered_map<const Part*, std::uint64_t> last_use;
  for (auto part = known.rbegin(); part != known.rend(); ++part) {
    const auto use = std::max(part->first, last_use[part->second]);
    last_use[part->second] = use;
    if (part->second->parent != nullptr) {
      auto& before = last_use[part->second->parent];
      before = std::max(before, use);
    }
  }
  for (auto& [name, tenant] : tenants_)
    tenant.by_age.sort([&](const Part* a, const Part* b) {
      const auto a_use = last_use[a], b_use = last_use[b];
      return a_use != b_use ? a_use > b_use : a->content->depth < b->content->depth;
    });
}

// What it continues was used, too, and comes before it: so the last one continues none.
void TurnMemory::use(Tenant& tenant, Part* part) {
  for (; part != nullptr; part = part->parent)
    tenant.by_age.splice(tenant.by_age.begin(), tenant.by_age, part->place);
}

// Null: it is not, or another one is that has its key.
TurnMemory::Part* TurnMemory::stored(Tenant& tenant, const std::shared_ptr<const RememberedText>& content) {
  const auto found = tenant.parts.find(content->key);
  return found != tenant.parts.end() && found->second.content == content ? &found->second : nullptr;
}

// One with the same key and another content goes, with all that continues it. Null: it
// is continued itself, since two messages of a chat have the same key.
TurnMemory::Part* TurnMemory::add(const std::string& name, Tenant& tenant, Part* parent,
                                  RememberedText content) {
  const auto known = tenant.parts.find(content.key);
  if (known != tenant.parts.end()) {
    if (known->second.content->has_same_content(content)) return &known->second;
    for (const Part* above = parent; above != nullptr; above = above->parent)
      if (above == &known->second) return nullptr;
    remove(tenant, &known->second);
  }
  Part* part = insert(tenant, parent, ++last_number_, std::move(content));
  if (tells_changes_)
    told_remembered_[part->number] = {.number = part->number,
                                      .before = parent != nullptr ? parent->number : 0,
                                      .tenant = name,
                                      .content = part->content};
  return part;
}

// A part that came since changes were last taken was never told.
void TurnMemory::tell_forgotten(std::uint64_t number) {
  if (tells_changes_ && told_remembered_.erase(number) == 0) told_forgotten_.push_back(number);
}

// No part of the tenant has its key.
TurnMemory::Part* TurnMemory::insert(Tenant& tenant, Part* parent, std::uint64_t number,
                                     RememberedText content) {
  const auto num_bytes = content.num_bytes();
  const auto key = content.key;
  Part& part = tenant.parts[key];
  part.number = number;
  part.content = std::make_shared<const RememberedText>(std::move(content));
  part.parent = parent;
  part.place = tenant.by_age.insert(tenant.by_age.begin(), &part);
  if (parent != nullptr) parent->children.push_back(&part);
  tenant.num_bytes += num_bytes;
  size_.num_bytes += num_bytes;
  size_.num_parts += 1;
  return &part;
}

void TurnMemory::remove(Tenant& tenant, Part* part) {
  if (part->parent != nullptr) std::erase(part->parent->children, part);
  std::vector<Part*> gone = {part};
  while (!gone.empty()) {
    Part* next = gone.back();
    gone.pop_back();
    gone.insert(gone.end(), next->children.begin(), next->children.end());
    const auto num_bytes = next->content->num_bytes();
    tenant.num_bytes -= num_bytes;
    size_.num_bytes -= num_bytes;
    size_.num_parts -= 1;
    tenant.by_age.erase(next->place);
    tell_forgotten(next->number);
    const auto key = next->content->key;  // goes with it
    tenant.parts.erase(key);
  }
}

void TurnMemory::drop_empty_tenants() {
  std::erase_if(tenants_, [](const auto& tenant) { return tenant.second.parts.empty(); });
}

void TurnMemory::make_room() {
  while (size_.num_bytes > limits_.max_bytes || size_.num_parts > limits_.max_parts) {
    const auto largest = std::max_element(tenants_.begin(), tenants_.end(), [](const auto& a, const auto& b) {
      return a.second.num_bytes < b.second.num_bytes;
    });
    remove(largest->second, largest->second.by_age.back());
    if (largest->second.parts.empty()) tenants_.erase(largest);
  }
}

}  // namespace troupe
