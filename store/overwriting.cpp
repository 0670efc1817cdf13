// SPDX-License-Identifier: Apache-2.0
#include "store/overwriting.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "store/plain_file.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t kMostAtOnce = std::uint64_t{1} << 20;

}  // namespace

int write_zeros(int file, std::uint64_t place, std::uint64_t num_bytes) {
  const std::string zeros(std::min(num_bytes, kMostAtOnce), '\0');
  int refused = 0;
  for (std::uint64_t done = 0; done < num_bytes; done += zeros.size()) {
    const int problem = write_all_at(
        file, place + done, std::string_view(zeros).substr(0, std::min(kMostAtOnce, num_bytes - done)));
    if (refused == 0) refused = problem;
  }
  return refused;
}

int overwrite_behind(int file, std::uint64_t place) {
  const off_t first = ::lseek(file, static_cast<off_t>(place), SEEK_DATA);
  off_t begin = first;
  int refused = 0;  // by the first range that was; those behind it are overwritten all the same
  while (begin >= 0) {
    const off_t end = ::lseek(file, begin, SEEK_HOLE);
    if (end < 0) return errno;
    const int problem =
        write_zeros(file, static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end - begin));
    if (refused == 0) refused = problem;
    begin = ::lseek(file, end, SEEK_DATA);
  }
  if (errno != ENXIO) return errno;  // else there is no more
  if (first >= 0 && ::fdatasync(file) != 0) return errno;
  return refused;
}

int cut_off(int file, std::uint64_t place) {
  if (const int problem = overwrite_behind(file, place)) return problem;
  return ::ftruncate(file, static_cast<off_t>(place)) == 0 ? 0 : errno;
}

int cut_off_damage(int file, std::uint64_t place) {
  if (const int problem = overwrite_behind(file, place))
    log(LogLevel::kWarning, "the damaged end of a file can't be overwritten, and is cut off as it is",
        {{"reason", std::generic_category().message(problem)}});
  return ::ftruncate(file, static_cast<off_t>(place)) == 0 ? 0 : errno;
}

}  // namespace troupe
