// exp(x - most) / sum along one axis, or its logarithm where LOGARITHM is 1. SHARE invocations, a power of two up to 64,
// work on one line: the texels along the axis, of which `spot` tells the places. CHANNELS is 1 where the axis is the
// channels, so that the four numbers of a texel belong together; else they belong to four lines.

struct Own {
    steps: i32,      // texels in a line
    positions: i32,  // lines in one slice
    lines: i32,
    beta: f32,
}

// shared: fn largest_of_all(a, b) = max(a, b)
// shared: fn sum_of_all(a, b) = a + b

fn input_at(at: vec4<i32>, unused: f32) -> vec4<f32> {
    let value = load_0(at.x, at.y, at.z, at.w) * p.own.beta;
    if (CHANNELS == 1) {
        return select(vec4<f32>(unused), value, used_of(p.input_0.channels, at.w));
    }
    return value;
}

fn power(v: vec4<f32>, most: vec4<f32>) -> vec4<f32> {
    let less = v - most;
    return select(exp(max(less, vec4<f32>(-104.0))), less, no_number(less));
}

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let line = serial(group, groups, local, 64u) / SHARE;
    let lane = i32(local) % SHARE;
    let steps = select(0, p.own.steps, line < p.own.lines);
    let position = line % p.own.positions;
    let slice = line / p.own.positions;

    var most = vec4<f32>(-3.4e38);
    for (var step = lane; step < steps; step += SHARE) {
        most = max(most, input_at(spot(position, slice, step), -3.4e38));
    }
    most = largest_of_all(most, local);
    if (CHANNELS == 1) {
        most = vec4<f32>(max(max(most.x, most.y), max(most.z, most.w)));
    }

    var sum = vec4<f32>();
    for (var step = lane; step < steps; step += SHARE) {
        let at = spot(position, slice, step);
        let value = power(input_at(at, 0.0), most);
        if (CHANNELS == 1) {
            sum += select(vec4<f32>(), value, used_of(p.input_0.channels, at.w));
        } else {
            sum += value;
        }
    }
    sum = sum_of_all(sum, local);
    if (CHANNELS == 1) {
        sum = vec4<f32>((sum.x + sum.y) + (sum.z + sum.w));
    }

    for (var step = lane; step < steps; step += SHARE) {
        let at = spot(position, slice, step);
        let value = input_at(at, 0.0);
        if (LOGARITHM == 1) {
            store(at.x, at.y, at.z, at.w, value - most - log(sum));
        } else {
            store(at.x, at.y, at.z, at.w, power(value, most) / sum);
        }
    }
}
