// SPDX-License-Identifier: Apache-2.0
#include "policy/vectors/vector_cache.hpp"

#include <iterator>

namespace troupe {
namespace {

// Of a vector's places in maps and lists.
constexpr std::size_t kEntryBytes = 256;

}  // namespace

const std::vector<float>* VectorCache::find(const std::string& tenant, const VectorInput& input,
                                            TimePoint now) {
  expire(now);
  const auto owner = tenants_.find(tenant);
  if (owner == tenants_.end()) return nullptr;
  auto& [entries, by_use, num_bytes] = owner->second;
  const auto found = entries.find(input);
  if (found == entries.end()) return nullptr;
  by_use.splice(by_use.end(), by_use, found->second.use);
  return &found->second.vector;
}

void VectorCache::put(const std::string& tenant, VectorInput input, std::vector<float> vector,
                      TimePoint now) {
  if (find(tenant, input, now) != nullptr) return;
  const std::size_t num_bytes = kEntryBytes + tenant.size() + input.tokens.size() * sizeof(std::int32_t) +
                                vector.size() * sizeof(float);
  if (num_bytes > max_bytes_) return;
  make_room(tenant, num_bytes);
  Tenant& owner = tenants_[tenant];
  const auto entry = owner.entries.try_emplace(std::move(input)).first;
  const VectorInput* place = &entry->first;
  entry->second = {.vector = std::move(vector),
                   .num_bytes = num_bytes,
                   .age = by_age_.insert(by_age_.end(), {.tenant = tenant, .input = place, .put = now}),
                   .use = owner.by_use.insert(owner.by_use.end(), place)};
  resize(tenant, owner, owner.num_bytes + num_bytes);
}

std::size_t VectorCache::num_bytes(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.num_bytes;
}

void VectorCache::expire(TimePoint now) {
  while (!by_age_.empty() && now - by_age_.front().put >= keep_for_) {
    const Place oldest = by_age_.front();
    erase(oldest.tenant, *oldest.input);
  }
}

// The newcomer counts with what it is about to have.
void VectorCache::make_room(const std::string& newcomer, std::size_t num_bytes) {
  while (num_bytes_ + num_bytes > max_bytes_) {
    auto largest = std::prev(by_bytes_.end());
    const std::size_t own = this->num_bytes(newcomer);
    const std::string loser = own > 0 && own + num_bytes >= largest->first ? newcomer : largest->second;
    erase(loser, *tenants_.at(loser).by_use.front());
  }
}

// input may be the cache's own.
void VectorCache::erase(const std::string& tenant, const VectorInput& input) {
  const auto owner = tenants_.find(tenant);
  const auto entry = owner->second.entries.find(input);
  const std::size_t num_bytes = entry->second.num_bytes;
  by_age_.erase(entry->second.age);
  owner->second.by_use.erase(entry->second.use);
  owner->second.entries.erase(entry);
  resize(tenant, owner->second, owner->second.num_bytes - num_bytes);
  if (owner->second.entries.empty()) tenants_.erase(owner);
}

void VectorCache::resize(const std::string& name, Tenant& tenant, std::size_t num_bytes) {
  by_bytes_.erase({tenant.num_bytes, name});
  num_bytes_ = num_bytes_ - tenant.num_bytes + num_bytes;
  tenant.num_bytes = num_bytes;
  if (num_bytes > 0) by_bytes_.insert({num_bytes, name});
}

}  // namespace troupe
