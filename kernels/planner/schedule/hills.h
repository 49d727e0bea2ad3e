// Merges sequences of steps that need nothing of each other, so that the most alive at once is least.
//
//     bytes alive     hill                    A sequence goes over hills to its lowest valley, and over others away
//          |   _       .                      from it. Before their lowest valleys the lowest hill comes first, of
//          |  / \_    / \   _                 whatever sequence: it ends no higher than it begins. After them the same
//          | /    \__/   \_/ \_ end           holds backwards in time.
//     begin|/             lowest valley
//
// Abdel-Wahab & Kameda 1978; Liu 1987 for trees. Kayaaslan, Lambert, Marchal & Ucar 2018, section 4, order the parts of
// series-parallel graphs so. It is optimal where what each sequence adds does not depend on the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgemem::schedule {

// Bytes alive at and after each step, beyond those before the first one.
struct Profile {
  std::vector<std::int64_t> during;
  std::vector<std::int64_t> after;
};

// For each step of the merged sequence the profile that it belongs to. Of equal ones the first one comes first.
std::vector<std::size_t> merge(const std::vector<Profile>& profiles);

}  // namespace edgemem::schedule
