package ai.edgemem.demo;

import ai.edgemem.Provider;
import android.content.Context;
import android.graphics.Typeface;
import android.view.View;
import android.view.ViewGroup;
import android.widget.Button;
import android.widget.LinearLayout;
import android.widget.RadioButton;
import android.widget.RadioGroup;
import android.widget.ScrollView;
import android.widget.Switch;
import android.widget.TextView;
import java.util.Collections;

/** The views of the app, and what they show of a snapshot. Of the thread of the user interface. */
final class Screen {
  /** What a user can ask for. */
  interface Actions {
    void plan(boolean inPlan);

    void provider(Provider provider);

    void runAgain();

    void choosePicture();
  }

  private static final int FIRST_ID = 1000; // of the buttons of the providers, in the order of Provider

  final ScrollView root;
  private boolean isShowingChoice;
  private final Context context;
  private final float density;
  private final LinearLayout column;
  private final TextView title;
  private final TextView headline;
  private final TextView subline;
  private final TextView source;
  private final MemoryMapView map;
  private final TextView selection;
  private final TextView memory;
  private final TextView latency;
  private final Switch planned;
  private final RadioGroup providers;
  private final PictureView picture;
  private final Button choose;
  private final TextView answer;
  private final TextView digest;
  private final TextView notes;
  private final TextView status;

  Screen(Context context, Actions actions) {
    this.context = context;
    density = context.getResources().getDisplayMetrics().density;
    column = new LinearLayout(context);
    column.setOrientation(LinearLayout.VERTICAL);
    column.setPadding(px(16), px(16), px(16), px(24));
    root = new ScrollView(context);
    root.setBackgroundColor(Look.BACKGROUND);
    root.setFitsSystemWindows(true); // the bars of the system do not cover the text
    root.addView(column);

    title = text("title", 14, Look.FAINT);
    headline = text("headline", 34, Look.ACCENT);
    headline.setTypeface(Typeface.DEFAULT_BOLD);
    subline = text("subline", 15, Look.TEXT);
    source = text("source", 15, Look.TEXT);
    map = new MemoryMapView(context);
    map.setTag("map");
    add(map, 12);
    selection = text("selection", 13, Look.FAINT);
    selection.setText(Texts.selection(null));
    map.setListener(record -> selection.setText(Texts.selection(record)));
    memory = text("memory", 12, Look.TEXT);
    memory.setTypeface(Typeface.MONOSPACE);
    memory.setBackgroundColor(Look.CARD);
    memory.setPadding(px(12), px(12), px(12), px(12));
    latency = text("latency", 14, Look.TEXT);

    planned = new Switch(context);
    planned.setTag("planned");
    planned.setText("planned memory");
    planned.setTextColor(Look.TEXT);
    planned.setChecked(true);
    planned.setOnCheckedChangeListener(
        (button, isOn) -> {
          if (!isShowingChoice) {
            actions.plan(isOn);
          }
        });
    add(planned, 12);
    providers = new RadioGroup(context);
    providers.setOrientation(LinearLayout.HORIZONTAL);
    for (Provider provider : Provider.values()) {
      RadioButton button = new RadioButton(context);
      button.setId(FIRST_ID + provider.ordinal());
      button.setTag(provider.name());
      button.setText(provider.name());
      button.setTextColor(Look.TEXT);
      providers.addView(button);
    }
    providers.check(FIRST_ID + Provider.CPU.ordinal());
    providers.setOnCheckedChangeListener(
        (group, id) -> {
          int index = id - FIRST_ID;
          if (!isShowingChoice && index >= 0 && index < Provider.values().length) {
            actions.provider(Provider.values()[index]);
          }
        });
    add(providers, 4);
    button("again", "Run 50 times", view -> actions.runAgain());
    notes = text("notes", 13, Look.WARNING);

    picture = new PictureView(context);
    picture.setTag("picture");
    add(picture, 12);
    choose = button("choose", "Choose a picture", view -> actions.choosePicture());
    answer = text("answer", 15, Look.TEXT);
    digest = text("digest", 11, Look.FAINT);
    status = text("status", 11, Look.FAINT);
  }

  /** Sets the switches without the actions of a user. Android's group tells of the old button, too: nobody listens. */
  void showChoice(boolean inPlan, Provider provider) {
    isShowingChoice = true;
    planned.setChecked(inPlan);
    providers.check(FIRST_ID + provider.ordinal());
    isShowingChoice = false;
  }

  void show(Snapshot state, boolean isBusy) {
    title.setText(Texts.title(state));
    headline.setText(Texts.headline(state));
    subline.setText(Texts.subline(state));
    source.setText(Texts.source(state));
    boolean hasRun = state.run != null;
    map.setPlan(state.places, hasRun ? state.run.arena : 0, hasRun ? state.run.lowerBound : 0);
    memory.setText(Texts.memory(state));
    latency.setText(Texts.latency(state));
    picture.show(state.picture, state.answer == null ? Collections.<Faces.Box>emptyList() : state.answer.boxes);
    choose.setVisibility(state.picture == null ? View.GONE : View.VISIBLE);
    answer.setText(Texts.answer(state));
    digest.setText(Texts.digest(state));
    notes.setText(Texts.notes(state));
    notes.setVisibility(Texts.notes(state).isEmpty() ? View.GONE : View.VISIBLE);
    status.setText(isBusy ? "running" : Texts.count(state.runs) + " runs done");
  }

  /** A sentence about something that could not be done. */
  void warn(String what) {
    notes.setText(what);
    notes.setVisibility(View.VISIBLE);
  }

  private TextView text(String tag, float size, int colour) {
    TextView view = new TextView(context);
    view.setTag(tag);
    view.setTextSize(size);
    view.setTextColor(colour);
    add(view, 6);
    return view;
  }

  private Button button(String tag, String label, View.OnClickListener listener) {
    Button button = new Button(context);
    button.setTag(tag);
    button.setText(label);
    button.setOnClickListener(listener);
    add(button, 6);
    return button;
  }

  private void add(View view, float above) {
    LinearLayout.LayoutParams place =
        new LinearLayout.LayoutParams(ViewGroup.LayoutParams.MATCH_PARENT, ViewGroup.LayoutParams.WRAP_CONTENT);
    place.setMargins(0, px(above), 0, 0);
    column.addView(view, place);
  }

  private int px(float dp) {
    return Math.round(dp * density);
  }
}
