// SPDX-License-Identifier: Apache-2.0
// Bounds the text of the long prompts that the engine holds. A lease is a value
// whose destructor gives the bytes back.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace troupe {

class TextLease;

// Any thread.
class TextQuota {
 public:
  explicit TextQuota(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // A tenant may hold as many bytes as are free afterwards; nothing if it would be
  // more. The quota lives as long as its leases.
  static std::optional<TextLease> take(std::shared_ptr<TextQuota> quota, const std::string& tenant,
                                       std::size_t num_bytes);

  std::size_t num_bytes() const;
  // More is never given to one tenant, however few others hold any.
  std::size_t max_bytes_of_one() const { return max_bytes_ / 2; }

 private:
  friend class TextLease;
  bool add(const std::string& tenant, std::size_t num_bytes);
  void give_back(const std::string& tenant, std::size_t num_bytes);

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::size_t num_bytes_ = 0;
  std::map<std::string, std::size_t> by_tenant_;  // tenants that hold any
};

class TextLease {
 public:
  TextLease(TextLease&& other) noexcept
      : quota_(std::exchange(other.quota_, nullptr)),
        tenant_(std::move(other.tenant_)),
        num_bytes_(other.num_bytes_) {}
  TextLease& operator=(TextLease&& other) noexcept {
    std::swap(quota_, other.quota_);
    std::swap(tenant_, other.tenant_);
    std::swap(num_bytes_, other.num_bytes_);
    return *this;
  }
  ~TextLease();

 private:
  friend class TextQuota;
  TextLease(std::shared_ptr<TextQuota> quota, std::string tenant, std::size_t num_bytes)
      : quota_(std::move(quota)), tenant_(std::move(tenant)), num_bytes_(num_bytes) {}

  std::shared_ptr<TextQuota> quota_;  // null: moved from
  std::string tenant_;
  std::size_t num_bytes_ = 0;
};

}  // namespace troupe
