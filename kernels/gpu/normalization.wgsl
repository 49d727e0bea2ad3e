// (x - mean) / sqrt(variance + epsilon) * scale + shift, or, where IS_LENGTH is 1, x / sqrt(max(sum of squares, epsilon))
// * scale + shift. SHARE invocations, a power of two up to 64, work on one group of texels, of which `spot` tells the
// places. CHANNELS is 1 where the four numbers of a texel belong to one group; else they belong to four groups. weights_0
// has scale and shift in turn, in the order of the texels, of the dimensions below or 1.

struct Own {
    steps: i32,      // texels in a group
    positions: i32,  // groups in one slice
    groups: i32,
    count: f32,      // elements that have one mean
    epsilon: f32,
    batch: i32, height: i32, width: i32,  // of scale and shift: the tensor's or 1
}

// shared: fn sum_of_all(a, b) = a + b

// The sum of what the SHARE invocations of a group give.
fn total(value: vec4<f32>, local: u32) -> vec4<f32> {
    let sum = sum_of_all(value, local);
    if (CHANNELS == 1) {
        return vec4<f32>((sum.x + sum.y) + (sum.z + sum.w));
    }
    return sum;
}

// The numbers that count; 0 for unused channels.
fn counting(value: vec4<f32>, at: vec4<i32>) -> vec4<f32> {
    if (CHANNELS == 1) {
        return select(vec4<f32>(), value, used_of(p.input_0.channels, at.w));
    }
    return value;
}

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let number = serial(group, groups, local, 64u) / SHARE;
    let lane = i32(local) % SHARE;
    let steps = select(0, p.own.steps, number < p.own.groups);
    let position = number % p.own.positions;
    let slice = number / p.own.positions;

    var mean = vec4<f32>();
    if (IS_LENGTH == 0) {
        var sum = vec4<f32>();
        for (var step = lane; step < steps; step += SHARE) {
            let at = spot(position, slice, step);
            sum += counting(load_0(at.x, at.y, at.z, at.w), at);
        }
        mean = total(sum, local) / p.own.count;
    }
    var sum = vec4<f32>();
    for (var step = lane; step < steps; step += SHARE) {
        let at = spot(position, slice, step);
        let value = counting(load_0(at.x, at.y, at.z, at.w) - mean, at);
        sum += value * value;
    }
    let squares = total(sum, local);
    var spread = sqrt(squares / p.own.count + p.own.epsilon);
    if (IS_LENGTH == 1) {
        spread = sqrt(max(squares, vec4<f32>(p.own.epsilon)));
    }
    for (var step = lane; step < steps; step += SHARE) {
        let at = spot(position, slice, step);
        let y = min(at.y, p.own.height - 1);
        let x = min(at.z, p.own.width - 1);
        let b = min(at.x, p.own.batch - 1);
        let k = (((at.w * p.own.height + y) * p.own.width + x) * p.own.batch + b) * 2;
        let value = (load_0(at.x, at.y, at.z, at.w) - mean) / spread;
        store(at.x, at.y, at.z, at.w, finish(value * weights_0(k) + weights_0(k + 1)));
    }
}
