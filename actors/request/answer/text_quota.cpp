// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/text_quota.hpp"

namespace troupe {

std::optional<TextLease> TextQuota::take(std::shared_ptr<TextQuota> quota, const std::string& tenant,
                                         std::size_t num_bytes) {
  if (!quota->add(tenant, num_bytes)) return std::nullopt;
  return TextLease(std::move(quota), tenant, num_bytes);
}

std::size_t TextQuota::num_bytes() const {
  const std::lock_guard lock(mutex_);
  return num_bytes_;
}

bool TextQuota::add(const std::string& tenant, std::size_t num_bytes) {
  if (num_bytes == 0) return true;
  const std::lock_guard lock(mutex_);
  const auto held = by_tenant_.find(tenant);
  const std::size_t own = held == by_tenant_.end() ? 0 : held->second;
  const std::size_t free = max_bytes_ - num_bytes_;
  if (num_bytes > free || own + num_bytes > free - num_bytes) return false;
  num_bytes_ += num_bytes;
  by_tenant_[tenant] = own + num_bytes;
  return true;
}

void TextQuota::give_back(const std::string& tenant, std::size_t num_bytes) {
  if (num_bytes == 0) return;  // a tenant that holds nothing else is not there
  const std::lock_guard lock(mutex_);
  num_bytes_ -= num_bytes;
  const auto held = by_tenant_.find(tenant);
  held->second -= num_bytes;
  if (held->second == 0) by_tenant_.erase(held);
}

TextLease::~TextLease() {
  if (quota_) quota_->give_back(tenant_, num_bytes_);
}

}  // namespace troupe
