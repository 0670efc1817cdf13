// SPDX-License-Identifier: Apache-2.0
#include "app/loading/cpu_placement.hpp"

#include <doctest/doctest.h>

#include "app/loading/backend_choice.hpp"
#include "app/options/configuration_error.hpp"

using namespace troupe;

namespace {

using Cpus = std::vector<std::int32_t>;
const Cpus kFour = {0, 1, 2, 3};

}  // namespace

TEST_CASE("cpu placement: threads run anywhere unless that is asked otherwise") {
  const auto placement = place_threads("", "", kFour);
  CHECK_FALSE(placement.is_asked_for);
  CHECK(placement.compute == kFour);
  CHECK(placement.others == kFour);
}

TEST_CASE("cpu placement: one list leaves the rest to the other threads") {
  const auto computing = place_threads("1-2", "", kFour);
  CHECK(computing.is_asked_for);
  CHECK(computing.compute == Cpus{1, 2});
  CHECK(computing.others == Cpus{0, 3});
  const auto writing = place_threads("", "0", kFour);
  CHECK(writing.compute == Cpus{1, 2, 3});
  CHECK(writing.others == Cpus{0});
  const auto both = place_threads("1", "0", kFour);
  CHECK(both.compute == Cpus{1});
  CHECK(both.others == Cpus{0});
}

TEST_CASE("cpu placement: a list of all CPUs leaves them to the other threads, too") {
  CHECK(place_threads("0-3", "", kFour).others == kFour);
  CHECK(place_threads("", "0-3", kFour).compute == kFour);
}

TEST_CASE("cpu placement: CPUs that the process may not use are refused by the option's name") {
  CHECK_THROWS_WITH_AS(place_threads("2", "", {0, 1}), "--cpus: CPU 2 is none that this process may use",
                       ConfigurationError);
  CHECK_THROWS_WITH_AS(place_threads("", "0,7", {0, 1}), "--io-cpus: CPU 7 is none that this process may use",
                       ConfigurationError);
}

TEST_CASE("cpu placement: compute threads are one a CPU that is named, and bound to it") {
  const auto usable = usable_cpus();
  Options options;
  options.cpus = std::to_string(usable.back());
  CHECK_NOTHROW(check_cpu_placement(options));
  const auto settings = backend_settings(options);
  CHECK(settings.num_threads == 1);
  CHECK(settings.cpus == Cpus{usable.back()});
  options.threads = 2;
  CHECK_THROWS_WITH_AS(check_cpu_placement(options),
                       "--threads: expected at most 1, one for each of --cpus, got 2", ConfigurationError);
  options.threads = 0;
  options.num_workers = 2;
  CHECK_THROWS_WITH_AS(check_cpu_placement(options),
                       "--cpus, --io-cpus: expected one worker, got --workers 2", ConfigurationError);
  options.num_workers = 1;
  options.pin_threads = false;
  CHECK_THROWS_AS(check_cpu_placement(options), ConfigurationError);
}
