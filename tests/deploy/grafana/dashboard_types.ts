// SPDX-License-Identifier: Apache-2.0
// The shape of a dashboard as Grafana declares it, exact down to the options
// of each kind of panel. types_test.py writes each dashboard as literals of
// these types and compiles them with each Grafana's @grafana/schema.
import type {
  AnnotationQuery,
  Dashboard,
  FieldConfig,
  GraphFieldConfig,
  Panel,
  RowPanel,
  VariableModel,
} from '@grafana/schema';
import type * as Stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as States from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type * as Table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as TimeSeries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
import type {dataquery} from 'grafana-foundation-sdk/prometheus';

// What JSON has in the place of T: an enum of strings is its values.
type Json<T> = T extends string
  ? `${T}`
  : T extends (infer Element)[]
    ? Json<Element>[]
    : T extends object
      ? {[Key in keyof T]: Json<T[Key]>}
      : T;

interface Source {
  type: 'prometheus';
  uid: '${datasource}';
}

type Target = Omit<dataquery, 'datasource' | '_implementsDataqueryVariant'> & {
  datasource: Source;
};

type PanelOf<Type extends string, Options, Custom> = Omit<
  Panel,
  'type' | 'options' | 'fieldConfig' | 'targets' | 'datasource'
> & {
  type: Type;
  datasource: Source;
  options: Options;
  targets: Target[];
  fieldConfig: Omit<NonNullable<Panel['fieldConfig']>, 'defaults'> & {
    defaults: Omit<FieldConfig, 'custom'> & {custom?: Custom};
  };
};

export type Panels = {
  stat: Json<PanelOf<'stat', Stat.Options, never>>;
  'state-timeline': Json<
    PanelOf<'state-timeline', States.Options, States.FieldConfig>
  >;
  table: Json<PanelOf<'table', Table.Options, Table.FieldConfig>>;
  timeseries: Json<
    PanelOf<'timeseries', TimeSeries.Options, GraphFieldConfig>
  >;
};

// The panels of a row that is folded are literals of their own.
export type Row = Json<Omit<RowPanel, 'panels'>>;

export type Variable = Json<VariableModel>;

// Prometheus' annotations have fields that no type of Grafana's packages has.
export type Annotation = Json<Omit<AnnotationQuery, 'datasource'>> & {
  datasource: Source;
  expr: string;
  step: string;
  textFormat: string;
  titleFormat: string;
  useValueForTime: boolean;
};

export type Rest = Json<
  Omit<Dashboard, 'annotations' | 'panels' | 'templating'>
>;
