// SPDX-License-Identifier: Apache-2.0
#include "text/history/turn_memory.hpp"

#include <algorithm>
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
        parent = add(owner, fuller->second.parent, *before);
    }
    fits = parent != nullptr;
  }
  for (auto& content : parts) {
    content.before = parent != nullptr ? parent->content : nullptr;
    content.depth = parent != nullptr ? parent->content->depth + 1 : 0;
    fits = fits && content.depth < kMaxDepth && content.num_bytes() <= limits_.max_bytes / kLargestShare;
    if (!fits) break;
    Part* part = add(owner, parent, std::move(content));
    if (part == nullptr) break;
    parent = part;
  }
  if (parent != nullptr) use(owner, parent);
  if (owner.parts.empty()) tenants_.erase(tenant);
  make_room();
}

TurnMemorySize TurnMemory::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
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
TurnMemory::Part* TurnMemory::add(Tenant& tenant, Part* parent, RememberedText content) {
  const auto known = tenant.parts.find(content.key);
  if (known != tenant.parts.end()) {
    if (known->second.content->has_same_content(content)) return &known->second;
    for (const Part* above = parent; above != nullptr; above = above->parent)
      if (above == &known->second) return nullptr;
    remove(tenant, &known->second);
  }
  const auto num_bytes = content.num_bytes();
  const auto key = content.key;
  Part& part = tenant.parts[key];
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
    const auto key = next->content->key;  // goes with it
    tenant.parts.erase(key);
  }
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
