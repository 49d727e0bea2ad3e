// A plan file that was read, shared by those who use it.
#pragma once

#include <memory>
#include <vector>

#include "android/plan_sets.h"

namespace edgemem {

using SharedPlanSets = std::shared_ptr<const std::vector<PlanSet>>;

// Null, with the error set, if the plan set is not one that em_planfile_plan gives a plan of.
em_plan* plan_of(const PlanSet& set);

em_record record_of(const PlacedRecord& record);

}  // namespace edgemem

struct em_planfile {
  edgemem::SharedPlanSets sets;
};
